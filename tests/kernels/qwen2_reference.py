#!/usr/bin/env python3
"""Writes tests/testdata/training/qwen2_reference.json: what PyTorch and transformers compute for the models that
tests/kernels/qwen2_reference_test.cpp trains. To be run by hand; needs torch, transformers and numpy, no GPU.

  qwen2_reference.py [PATH]
"""
import json
import pathlib
import sys

import numpy as np
import torch
import transformers

PLACES = 8  # elements stored of each parameter
STEPS = 3
# Qwen2Shape, in its order, and the micro-batch. The first is the preset qwen2-tiny; the second meets what that does not:
# an untied head, one key head for all, a head size that is not hidden / heads, and more tokens, words and hidden sizes
# than the CPU backend takes at once.
MODELS = [
    {"name": "qwen2-tiny", "shape": [60, 3, 6, 2, 10, 148, 509, 10000.0, 1e-6, True], "rows": 2, "sequence": 37, "seed": 1, "clip": 1.0},
    {"name": "untied", "shape": [272, 2, 8, 1, 12, 300, 1100, 1e6, 1e-5, False], "rows": 3, "sequence": 47, "seed": 2, "clip": 1.0},
]
FIELDS = ["hidden", "layers", "heads", "kv_heads", "head_size", "intermediate", "vocabulary", "rope_theta", "rms_epsilon", "tied_embedding"]
# As AdamWOptions holds them: the doubles that its floats are.
ADAMW = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01}
# For the models. With the usual epsilon an element whose gradient is next to nothing moves by the rate this way or that, as
# the last bit of the gradient has it: two right answers would be far apart.
SMOOTH_ADAMW = dict(ADAMW, epsilon=1e-3)


def mix_bits(x):
    """kernels/mix.h."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def synthetic_key(seed, stream):
    return mix_bits(np.uint64(seed) ^ mix_bits(np.uint64(stream)))


def synthetic_normal(key, count):
    bits = mix_bits(key ^ np.arange(count, dtype=np.uint64))
    parts = [(bits >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
    return (sum(part.astype(np.int64) for part in parts) - 131070).astype(np.float32) / np.float32(65536)


def synthetic_tokens(key, rows, positions, vocabulary):
    row, position = np.meshgrid(np.arange(rows, dtype=np.uint64), np.arange(positions, dtype=np.uint64), indexing="ij")
    return (mix_bits(key ^ (row << np.uint64(32)) ^ position) % np.uint64(vocabulary)).astype(np.int64)


def build(model):
    shape = dict(zip(FIELDS, model["shape"]))
    config = transformers.Qwen2Config(
        hidden_size=shape["hidden"], num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"], head_dim=shape["head_size"], intermediate_size=shape["intermediate"],
        vocab_size=shape["vocabulary"], rms_norm_eps=shape["rms_epsilon"], tie_word_embeddings=shape["tied_embedding"],
        rope_parameters={"rope_type": "default", "rope_theta": shape["rope_theta"]}, hidden_act="silu", attention_dropout=0.0,
        use_sliding_window=False, max_position_embeddings=4096, attn_implementation="eager")
    made = transformers.Qwen2ForCausalLM(config).float().train()
    return made


def stored_order(made):
    """Name and parameter in the order of Qwen2Parameters: layers first, then the root."""
    named = list(made.named_parameters())
    layers = [item for item in named if ".layers." in item[0]]
    return layers + [item for item in named if ".layers." not in item[0]]


def set_weights(parameters, seed):
    with torch.no_grad():
        for index, (name, parameter) in enumerate(parameters):
            mean = np.float32(1 if "norm" in name else 0)
            values = mean + np.float32(1 / 32) * synthetic_normal(synthetic_key(seed, index), parameter.numel())
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))


def number(value):
    return float(f"{float(value.detach()):.9g}")


def summary(tensor):
    flat = tensor.detach().reshape(-1)
    places = [(2 * i + 1) * flat.numel() // (2 * PLACES) for i in range(PLACES)]
    return {"norm": number(flat.double().norm()), "sum": number(flat.double().sum()),
            "places": places, "values": [number(flat[place]) for place in places]}


def adamw(parameters, options):
    exact = {name: float(np.float32(value)) for name, value in options.items()}
    return torch.optim.AdamW(parameters, lr=exact["rate"], betas=(exact["beta1"], exact["beta2"]), eps=exact["epsilon"],
                             weight_decay=exact["weight_decay"], foreach=False)


def train(model):
    made = build(model)
    parameters = stored_order(made)
    set_weights(parameters, model["seed"])
    optimizer = adamw([parameter for _, parameter in parameters], SMOOTH_ADAMW)
    result = dict(model, shape=dict(zip(FIELDS, model["shape"])), adamw=SMOOTH_ADAMW, steps=[], gradients={}, parameters={})
    for step in range(STEPS):
        vocabulary = result["shape"]["vocabulary"]
        tokens = synthetic_tokens(synthetic_key(model["seed"], 1000 + step), model["rows"], model["sequence"] + 1, vocabulary)
        tokens = torch.from_numpy(tokens)
        optimizer.zero_grad()
        logits = made(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        if step == 0:
            result["gradients"] = {name: summary(parameter.grad) for name, parameter in parameters}
        norm = torch.nn.utils.clip_grad_norm_([parameter for _, parameter in parameters], model["clip"])
        result["steps"].append({"loss": number(loss), "gradient_norm": number(norm)})
        optimizer.step()
    for name, parameter in parameters:
        state = optimizer.state[parameter]
        result["parameters"][name] = {"value": summary(parameter), "m": summary(state["exp_avg"]), "v": summary(state["exp_avg_sq"])}
    return result


def optimize(options, seed, count):
    """AdamW alone, on values of the generator: stream 0 is the parameter, stream n the gradient of step n."""
    parameter = torch.nn.Parameter(torch.from_numpy(synthetic_normal(synthetic_key(seed, 0), count)))
    optimizer = adamw([parameter], options)
    for step in range(1, STEPS + 1):
        parameter.grad = torch.from_numpy(synthetic_normal(synthetic_key(seed, step), count))
        optimizer.step()
    state = optimizer.state[parameter]
    values = {"value": parameter, "m": state["exp_avg"], "v": state["exp_avg_sq"]}
    return {"options": options, "seed": seed, "steps": STEPS,
            **{name: [number(value) for value in tensor.detach()] for name, tensor in values.items()}}


def main():
    here = pathlib.Path(__file__).resolve().parents[1] / "testdata" / "training" / "qwen2_reference.json"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    reference = {
        "made_by": f"tests/kernels/qwen2_reference.py with torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, CPU, float32",
        "models": [train(model) for model in MODELS],
        "adamw": [optimize(ADAMW, 3, 9), optimize({"rate": 0.05, "beta1": 0.4, "beta2": 0.9, "epsilon": 1e-3, "weight_decay": 0.3}, 4, 9)],
    }
    path.write_text(json.dumps(reference, indent=None, separators=(",", ":")).replace('},"', '},\n"').replace('}},{', '}},\n{') + "\n")


if __name__ == "__main__":
    main()
