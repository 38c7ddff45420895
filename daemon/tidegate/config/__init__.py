"""From one TOML file to frozen settings: schema, then meaning, every problem at once with file and line."""
