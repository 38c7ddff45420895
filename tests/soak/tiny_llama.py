"""Make the smallest model that vLLM serves: a two-layer Llama with random weights and a tokenizer trained on the spot.

Run by the engine's own Python, which has transformers and tokenizers: `python tiny_llama.py FOLDER`.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 1024
TEXT = [
    "the tide comes in and the tide goes out, and the gate opens and closes with it",
    "a replica that holds its cache answers sooner than one that has to compute everything anew",
    "what did a million tokens cost last week, and which pool carried the peak of the day",
    *(f"request {number} asks for {number * 7} tokens of {number * 13} words" for number in range(400)),
]


def main(folder: str) -> None:
    """Write model and tokenizer into the folder."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXT, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,  # heads of 32: what the engine's CPU attention takes
        num_key_value_heads=1,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
