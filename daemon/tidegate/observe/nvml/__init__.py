"""The process that talks to NVML; run as `python -m tidegate.observe.nvml`, started by `observe/gpu_child.py`."""
