#!/usr/bin/env python3
"""Exports models of timm, torchvision and transformers, trains them in Leat, and compares the losses.

    model_zoo.py [LEAT] [--seed 18] [--timm 100] [--form default|dynamic|training] [--only NAME ...]
                 [--steps 2] [--batch 4] [--precision float32] [--folder FOLDER] [--json FILE]

Every model has random weights, and learns random records, so that nothing is downloaded. `--timm`
models are drawn by the seed from timm's list, among those with at most --parameters parameters;
torchvision's classification and segmentation models within that limit and the smallest usable
configuration of each transformer follow. --form is how torch.onnx.export() is called: `default` as
it comes, in evaluation mode; `dynamic` with the batch as a symbol, too; `training` as Leat advises,
model.train() with optimize=False. Dropout and stochastic depth are off in all of them.

For each model the script prints one line: the relative difference of each step's loss from
PyTorch's with the same weights and records, or the first error of the export, of the import or of
the training. A difference in the default form is none of Leat's if the exporter folded
normalizations into weights: they train apart from PyTorch's then, and Leat's note tells it.
Needs torch, timm, torchvision, transformers, onnx and onnxscript. The exit code is 0 if at least
85 % of the models train.
"""
import argparse
import copy
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch.nn import functional as F

from side_by_side import BINARIES, own_environment

RECORDS, CLASSES, VOCABULARY, LENGTH = 8, 10, 64, 12


class Case:
    """A module, the names and values of its inputs [RECORDS,...], and its labels."""

    def __init__(self, module, inputs, labels):
        self.module, self.inputs, self.labels = module, inputs, labels


def without_noise(module):
    """Dropout and stochastic depth draw other random numbers in PyTorch."""
    for part in module.modules():
        for name in ("p", "drop_prob", "dropout", "attn_drop", "dropout_p", "attn_dropout_p"):
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
SEQUENCE_TO_SEQUENCE = ("t5", "bart")
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
    model, config, options = TRANSFORMERS[name]
    module = getattr(transformers, model)(getattr(transformers, config)(**{**SMALL, **options}))
    if name == "vit":
        return image_case(Logits(module, ["pixel_values"]), (3, 32, 32))
    names = ["input_ids"] + (["decoder_input_ids"] if name in SEQUENCE_TO_SEQUENCE else [])
    inputs = {n: torch.randint(3, VOCABULARY, (RECORDS, LENGTH)) for n in names}
    classes = CLASSES if "TokenClassification" in model else VOCABULARY
    return Case(Logits(module, names), inputs, torch.randint(0, classes, (RECORDS, LENGTH)))


def build(name, seed):
    torch.manual_seed(seed)
    source, model = name.split("/")
    make = {"timm": timm_case, "torchvision": torchvision_case, "transformers": transformer_case}
    case = make[source](model)
    case.module = without_noise(case.module)
    return case


def export(case, form, path, batch):
    module = case.module.train(form == "training")
    options = {"optimize": False} if form == "training" else {}
    if form == "dynamic":
        options["dynamic_shapes"] = tuple({0: torch.export.Dim.DYNAMIC} for _ in case.inputs)
        if isinstance(module, Logits):
            options["dynamic_shapes"] = (options["dynamic_shapes"],)
    examples = tuple(value[:batch] for value in case.inputs.values())
    kept = copy.deepcopy(module.state_dict())  # the trace of a BatchNorm moves its statistics
    torch.onnx.export(module, examples, path, input_names=list(case.inputs), verbose=False, **options)
    module.load_state_dict(kept)


def reference(case, args):
    """PyTorch's losses."""
    precision = getattr(torch, args.precision)
    module = copy.deepcopy(case.module).to(precision)
    optimizer = torch.optim.SGD(module.parameters(), lr=args.rate)
    losses = []
    for step in range(args.steps):
        rows = [(step * args.batch + i) % RECORDS for i in range(args.batch)]
        inputs = [v[rows].to(precision) if v.is_floating_point() else v[rows] for v in case.inputs.values()]
        scores = module(*inputs)
        if scores.dim() == 3:  # [N,T,C]
            scores = scores.transpose(1, 2)
        loss = F.cross_entropy(scores, case.labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(case, args, folder):
    """Leat's losses; raises RuntimeError with its first error."""
    files = {**case.inputs, "labels": case.labels}
    for name, value in files.items():
        np.save(os.path.join(folder, name + ".npy"), value.numpy())
    columns = ", ".join(f"{name}: {name}.npy" for name in files)
    job = f"""version: 1
name: zoo
model: {{graph: model.onnx}}
data: {{root: ., shuffle: false, train: {{format: npy, files: {{{columns}}}}}}}
loss: cross_entropy
optimizer: {{name: sgd, learning_rate: {args.rate}}}
global_batch_size: {args.batch}
steps: {args.steps}
precision: {args.precision}
"""
    path = os.path.join(folder, "job.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(job)
    output = os.path.join(folder, "run")
    done = subprocess.run([args.leat, "train", path, "--threads", str(args.threads), "--output", output],
                          env=own_environment(), capture_output=True, text=True, timeout=args.timeout,
                          check=False)
    if "is NaN" in done.stderr:
        raise Diverged(" ".join(done.stderr.split())[-200:])
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        raise RuntimeError((errors or [done.stderr[-300:] or f"exit code {done.returncode}"])[0])
    folded = any("folded" in line for line in done.stderr.splitlines())
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row["loss"] for row in rows if "epoch" not in row][:args.steps], folded


class Diverged(Exception):
    """The loss became NaN, which counts as trained if PyTorch's does, too."""


def first_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def measure(name, args):
    """{model, stage: the last one that was reached, ...}."""
    result = {"model": name, "form": args.form}
    folder = tempfile.mkdtemp(dir=args.folder)
    try:
        result["stage"] = "build"
        case = build(name, args.seed)
        result["parameters"] = sum(p.numel() for p in case.module.parameters())
        result["stage"] = "export"
        export(case, args.form, os.path.join(folder, "model.onnx"), args.batch)
        result["stage"] = "train"
        try:
            result["losses"], result["folded"] = train(case, args, folder)
        except Diverged:
            result["losses"] = [math.nan] * args.steps
        result["stage"] = "compare"
        result["reference"] = reference(case, args)
        if any(math.isnan(a) and math.isfinite(b) for a, b in zip(result["losses"][-1:], result["reference"][-1:])):
            raise RuntimeError("the loss is NaN, and PyTorch's is not")
        result["difference"] = [abs(a - b) / abs(b) for a, b in zip(result["losses"], result["reference"])]
        result["stage"] = "done"
    except Exception as error:
        result["error"] = first_line(error)
    if not args.keep:
        shutil.rmtree(folder)
    return result


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("leat", nargs="?", default=os.path.join(BINARIES, "leat"))
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--timm", type=int, default=100)
    parser.add_argument("--parameters", type=float, default=60e6)
    parser.add_argument("--form", choices=("default", "dynamic", "training"), default="default")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--folder")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    args = parse_arguments()
    warnings.simplefilter("ignore")
    names = args.only
    if not names:
        names = ["transformers/" + n for n in TRANSFORMERS] + torchvision_names(args) + timm_names(args)
    print(f"{len(names)} models, seed {args.seed}, form {args.form}", flush=True)
    results = []
    for name in names:
        result = measure(name, args)
        results.append(result)
        text = result.get("error") or " ".join(f"{d:.1e}" for d in result["difference"])
        if result.get("folded"):
            text += " (the exporter folded normalizations)"
        print(f"{name}: {result['stage']}: {text}", flush=True)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    # PyTorch cannot train some modules twice in evaluation mode: they count, too.
    trained = sum(result["stage"] in ("compare", "done") and "is NaN" not in result.get("error", "")
                  for result in results)
    print(f"{trained} of {len(results)} models train")
    return 0 if trained >= 0.85 * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
