"""Models of the zoo: networks for text and sound, built from configurations of transformers."""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from entries import REAL, SMALL, Built, Entry, tokens

ENCODER, DECODER, BOTH, MIXTURE, STATE, SPEECH, PAIRS = (
    "text encoders",
    "text decoders",
    "encoders and decoders of text",
    "mixtures of experts",
    "state-space models",
    "speech",
    "images and text",
)
VOCABULARY = 101


class Called(torch.nn.Module):
    """Calls a model of transformers with the tensors in `inputs` as keyword arguments `names`. Returns a tuple."""

    def __init__(self, model: Any, names: tuple[str, ...], options: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = dict(zip(self.names, inputs, strict=True))
        return self.model(**given, **self.options, return_dict=False)


def _text(
    model: str, config: str, length: int = 16, names: tuple[str, ...] = ("input_ids",), **options: Any
) -> Callable[[], Built]:
    """Returns a builder of a model whose inputs are arrays of tokens, one for each parameter in `names`."""

    def build() -> Built:
        made = getattr(transformers, config)(**options)
        calling = {"use_cache": False} if hasattr(made, "use_cache") else {}
        module = getattr(transformers, model)(made)
        inputs = tuple(tokens(made.vocab_size, length) for _ in names)
        return Called(module, names, calling), inputs

    return build


def _small(model: str, config: str, names: tuple[str, ...] = ("input_ids",), **options: Any) -> Any:
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    return _text(model, config, names=names, **{**sizes, **options})


def _features(
    model: str, config: str, shapes: dict[str, tuple[int, ...]], decoded: int = 0, **options: Any
) -> Callable[[], Built]:
    """Returns a builder of a model whose inputs are float arrays of the given shapes.

    If `decoded` is not 0, the decoder also gets this number of tokens.
    """

    def build() -> Built:
        made = getattr(transformers, config)(**options)
        inputs = [torch.randn(shape) for shape in shapes.values()]
        names = tuple(shapes)
        calling = {"use_cache": False} if decoded else {}
        if decoded:
            names, inputs = (*names, "decoder_input_ids"), [*inputs, tokens(made.vocab_size, decoded)]
        return Called(getattr(transformers, model)(made), names, calling), tuple(inputs)

    return build


def _clip() -> Built:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**sizes, "vocab_size": VOCABULARY, "max_position_embeddings": 16, "eos_token_id": 2}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    model = transformers.CLIPModel(config)
    return Called(model, ("input_ids", "pixel_values"), {}), (
        tokens(VOCABULARY, 8),
        torch.randn(1, 3, 32, 32),
    )


_LLAMA_100M = {
    "vocab_size": 16000,
    "hidden_size": 768,
    "num_hidden_layers": 10,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 2048,
}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
}
_BART = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
}
_WHISPER = {**_BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}
_WHISPER.pop("max_position_embeddings")
_SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": (16, 16),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
}
_PAIR = ("input_ids", "decoder_input_ids")

ENTRIES = [
    Entry("bert", ENCODER, SMALL, _small("BertModel", "BertConfig")),
    Entry("roberta", ENCODER, SMALL, _small("RobertaModel", "RobertaConfig")),
    Entry(
        "distilbert",
        ENCODER,
        SMALL,
        _text(
            "DistilBertModel",
            "DistilBertConfig",
            vocab_size=VOCABULARY,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
        ),
    ),
    Entry("albert", ENCODER, SMALL, _small("AlbertModel", "AlbertConfig", embedding_size=16)),
    Entry("electra", ENCODER, SMALL, _small("ElectraModel", "ElectraConfig", embedding_size=16)),
    Entry("mpnet", ENCODER, SMALL, _small("MPNetModel", "MPNetConfig")),
    Entry(
        "deberta v2",
        ENCODER,
        SMALL,
        _small("DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    ),
    Entry(
        "modernbert",
        ENCODER,
        SMALL,
        _small(
            "ModernBertModel",
            "ModernBertConfig",
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=2,
            cls_token_id=2,
            sep_token_id=1,
        ),
    ),
    Entry(
        "gpt2",
        DECODER,
        SMALL,
        _text(
            "GPT2LMHeadModel",
            "GPT2Config",
            vocab_size=VOCABULARY,
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=4,
        ),
    ),
    Entry("gpt-neox", DECODER, SMALL, _small("GPTNeoXForCausalLM", "GPTNeoXConfig")),
    Entry("opt", DECODER, SMALL, _small("OPTForCausalLM", "OPTConfig", ffn_dim=64, word_embed_proj_dim=32)),
    Entry(
        "bloom",
        DECODER,
        SMALL,
        _text("BloomForCausalLM", "BloomConfig", vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4),
    ),
    Entry("llama", DECODER, SMALL, _small("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2)),
    Entry("mistral", DECODER, SMALL, _small("MistralForCausalLM", "MistralConfig", num_key_value_heads=2)),
    Entry("qwen2", DECODER, SMALL, _small("Qwen2ForCausalLM", "Qwen2Config", num_key_value_heads=2)),
    Entry(
        "gemma", DECODER, SMALL, _small("GemmaForCausalLM", "GemmaConfig", num_key_value_heads=2, head_dim=8)
    ),
    Entry("phi", DECODER, SMALL, _small("PhiForCausalLM", "PhiConfig")),
    Entry("falcon", DECODER, SMALL, _small("FalconForCausalLM", "FalconConfig")),
    Entry("t5", BOTH, SMALL, _text("T5ForConditionalGeneration", "T5Config", names=_PAIR, **_T5)),
    Entry("bart", BOTH, SMALL, _text("BartForConditionalGeneration", "BartConfig", names=_PAIR, **_BART)),
    Entry(
        "marian",
        BOTH,
        SMALL,
        _text(
            "MarianMTModel", "MarianConfig", names=_PAIR, pad_token_id=0, decoder_start_token_id=0, **_BART
        ),
    ),
    Entry(
        "mixtral",
        MIXTURE,
        SMALL,
        _small("MixtralForCausalLM", "MixtralConfig", num_key_value_heads=2, num_local_experts=4),
    ),
    Entry(
        "mamba",
        STATE,
        SMALL,
        _text(
            "MambaForCausalLM",
            "MambaConfig",
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            state_size=4,
        ),
    ),
    Entry(
        "rwkv",
        STATE,
        SMALL,
        _text(
            "RwkvForCausalLM",
            "RwkvConfig",
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            attention_hidden_size=32,
            rescale_every=0,  # other values change the weights in the forward pass
        ),
    ),
    Entry(
        "whisper",
        SPEECH,
        SMALL,
        _features(
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            {"input_features": (1, 8, 32)},
            8,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            **_WHISPER,
        ),
    ),
    Entry(
        "wav2vec2",
        SPEECH,
        SMALL,
        _features("Wav2Vec2Model", "Wav2Vec2Config", {"input_values": (1, 400)}, **_SPEECH),
    ),
    Entry(
        "hubert",
        SPEECH,
        SMALL,
        _features("HubertModel", "HubertConfig", {"input_values": (1, 400)}, **_SPEECH),
    ),
    Entry("clip", PAIRS, SMALL, _clip),
    Entry("bert-base", ENCODER, REAL, _text("BertModel", "BertConfig", 128)),
    Entry("gpt2 124M", DECODER, REAL, _text("GPT2LMHeadModel", "GPT2Config", 128)),
    Entry("llama 100M", DECODER, REAL, _text("LlamaForCausalLM", "LlamaConfig", 128, **_LLAMA_100M)),
    Entry("t5-small", BOTH, REAL, _text("T5ForConditionalGeneration", "T5Config", 64, _PAIR)),
    Entry(
        "whisper-tiny",
        SPEECH,
        REAL,
        _features(
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            {"input_features": (1, 80, 3000)},
            16,
            d_model=384,
            encoder_layers=4,
            decoder_layers=4,
            encoder_attention_heads=6,
            decoder_attention_heads=6,
            encoder_ffn_dim=1536,
            decoder_ffn_dim=1536,
        ),
    ),
    Entry(
        "mamba 130M",
        STATE,
        REAL,
        _text("MambaForCausalLM", "MambaConfig", 64, hidden_size=768, num_hidden_layers=24),
    ),
]
