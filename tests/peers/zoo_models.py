"""The models of model_zoo.py: modules with random weights, and records that they learn."""
import random

import torch

from zoo_parts import PARTS, SIDE, Part

RECORDS, CLASSES, VOCABULARY, LENGTH = 8, 10, 64, 12


class Case:
    """A module, the names and values of its inputs [RECORDS,...], and its labels."""

    def __init__(self, module, inputs, labels):
        self.module, self.inputs, self.labels = module, inputs, labels


def without_noise(module):
    """Dropout and stochastic depth draw other random numbers in PyTorch."""
    for part in module.modules():
        for name in ("p", "drop_prob", "dropout", "attn_drop", "drop_rate", "dropout_p", "attn_dropout_p"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def image_case(module, size, labels=None):
    images = torch.randn(RECORDS, *size)
    if labels is None:
        labels = torch.randint(0, CLASSES, (RECORDS,))
    return Case(module, {"image": images}, labels)


def parameters_of(build):
    """The number of parameters of what build() makes; None if it cannot be made."""
    for device in ("meta", "cpu"):  # some need their values when they are made
        try:
            with torch.device(device):
                return sum(p.numel() for p in build().parameters())
        except Exception:
            continue
    return None


def timm_names(args):
    import timm
    names = sorted(timm.list_models())
    random.Random(args.seed).shuffle(names)
    drawn = []
    for name in names:
        if len(drawn) == args.timm:
            break
        count = parameters_of(lambda: timm.create_model(name, num_classes=CLASSES))
        if count is not None and count <= args.parameters:
            drawn.append("timm/" + name)
    return drawn


def timm_case(name):
    import timm
    module = timm.create_model(name, num_classes=CLASSES)
    return image_case(module, module.default_cfg.get("input_size", (3, 224, 224)))


def torchvision_names(args):
    import torchvision.models as models
    names = models.list_models(module=models) + models.list_models(module=models.segmentation)
    counts = {name: parameters_of(lambda: torchvision_module(name)) for name in names}
    return ["torchvision/" + name for name in names
            if counts[name] is not None and counts[name] <= args.parameters]


class First(torch.nn.Module):
    """The main output of a module that has several."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, image):
        out = self.module(image)
        if isinstance(out, dict):
            return out["out"]
        return out[0] if isinstance(out, tuple) else out


def torchvision_module(name):
    import torchvision.models as models
    options = {"num_classes": CLASSES, "weights": None}
    if name in models.list_models(module=models.segmentation):
        options["weights_backbone"] = None
    return models.get_model(name, **options)


def torchvision_case(name):
    import torchvision.models as models
    module = First(torchvision_module(name))
    if name in models.list_models(module=models.segmentation):
        return image_case(module, (3, 64, 64), torch.randint(0, CLASSES, (RECORDS, 64, 64)))
    size = 299 if name == "inception_v3" else 224
    return image_case(module, (3, size, size))


# name: (class, configuration's class, its options). The head of each gives [N,T,C] or [N,C].
TRANSFORMERS = {
    "bert": ("BertForTokenClassification", "BertConfig", {}),
    "roberta": ("RobertaForTokenClassification", "RobertaConfig", {}),
    "distilbert": ("DistilBertForTokenClassification", "DistilBertConfig", {"dim": 32, "hidden_dim": 64, "n_heads": 4, "n_layers": 2}),
    "albert": ("AlbertForTokenClassification", "AlbertConfig", {"embedding_size": 16}),
    "electra": ("ElectraForTokenClassification", "ElectraConfig", {"embedding_size": 16}),
    "mpnet": ("MPNetForTokenClassification", "MPNetConfig", {}),
    "deberta_v2": ("DebertaV2ForTokenClassification", "DebertaV2Config", {}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig", {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {}),
    "opt": ("OPTForCausalLM", "OPTConfig", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"n_layer": 2, "n_head": 4}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {"num_key_value_heads": 2}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {"num_key_value_heads": 2}),
    "phi": ("PhiForCausalLM", "PhiConfig", {}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {"num_key_value_heads": 2, "head_dim": 8}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}),
    "bart": ("BartForConditionalGeneration", "BartConfig", {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}),
    "vit": ("ViTForImageClassification", "ViTConfig", {"image_size": 32, "patch_size": 8}),
}
# More of them, which the importer was not made with.
OTHERS = {
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64}),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64}),
    "falcon": ("FalconForCausalLM", "FalconConfig", {}),
    "mpt": ("MptForCausalLM", "MptConfig", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", {"num_key_value_heads": 2}),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", {"num_key_value_heads": 2}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {"num_key_value_heads": 2, "head_dim": 8}),
    "cohere": ("CohereForCausalLM", "CohereConfig", {"num_key_value_heads": 2}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {"num_key_value_heads": 2, "num_local_experts": 4}),
    "mamba": ("MambaForCausalLM", "MambaConfig", {"state_size": 4}),
    "fnet": ("FNetForTokenClassification", "FNetConfig", {}),
    "squeezebert": ("SqueezeBertForTokenClassification", "SqueezeBertConfig", {"embedding_size": 32}),
    "mobilebert": ("MobileBertForTokenClassification", "MobileBertConfig", {"embedding_size": 16, "intra_bottleneck_size": 16}),
    "roformer": ("RoFormerForTokenClassification", "RoFormerConfig", {"embedding_size": 32}),
    "convbert": ("ConvBertForTokenClassification", "ConvBertConfig", {"embedding_size": 32}),
    "nystromformer": ("NystromformerForTokenClassification", "NystromformerConfig", {"segment_means_seq_len": 12, "num_landmarks": 4}),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}),
    "swin": ("SwinForImageClassification", "SwinConfig", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}),
    "segformer": ("SegformerForImageClassification", "SegformerConfig", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}),
    "deit": ("DeiTForImageClassification", "DeiTConfig", {"image_size": 32, "patch_size": 8}),
}
IMAGES = ("vit", "swin", "segformer", "convnext", "deit")
SEQUENCE_TO_SEQUENCE = ("t5", "bart", "pegasus")
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "max_position_embeddings": 64, "num_labels": CLASSES,
         "use_cache": False, "attn_implementation": "eager", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


class Logits(torch.nn.Module):
    def __init__(self, module, names):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs):
        return self.module(**dict(zip(self.names, inputs))).logits


def transformer_case(name):
    import transformers
    model, config, options = {**TRANSFORMERS, **OTHERS}[name]
    settings = {**SMALL, **options}
    if name in ("segformer", "convnext", "swin"):  # sizes by stage
        settings = {n: v for n, v in settings.items() if n not in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size") or n in options}
    module = getattr(transformers, model)(getattr(transformers, config)(**settings))
    if name in IMAGES:
        return image_case(Logits(module, ["pixel_values"]), (3, 32, 32))
    names = ["input_ids"] + (["decoder_input_ids"] if name in SEQUENCE_TO_SEQUENCE else [])
    inputs = {n: torch.randint(3, VOCABULARY, (RECORDS, LENGTH)) for n in names}
    classes = CLASSES if "TokenClassification" in model else VOCABULARY
    return Case(Logits(module, names), inputs, torch.randint(0, classes, (RECORDS, LENGTH)))


def part_case(name):
    return image_case(Part(PARTS[name], CLASSES), (3, SIDE, SIDE))


def build(name, seed):
    torch.manual_seed(seed)
    source, model = name.split("/")
    make = {"timm": timm_case, "torchvision": torchvision_case, "transformers": transformer_case,
            "parts": part_case}
    case = make[source](model)
    case.module = without_noise(case.module)
    return case
