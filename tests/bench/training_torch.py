#!/usr/bin/env python3
"""The steps of cuda_training_bench, and of fsdp-training on one rank with seed 1 and one micro-batch, with PyTorch's FSDP2, world 1:
the same weights, tokens and shape. Needs torch with CUDA.

  training_torch.py [--preset qwen2.5-1.5b] [--rows 1] [--sequence 128] [--steps 8] [--compile] [--float32] [--profile] [--json PATH]

fully_shard on every layer and on the root, bf16 parameters, fp32 reduction, clip_grad_norm_(1.0), fused AdamW. Prints the loss of
each step and the median time. --float32 computes in float32 throughout, without TF32. --profile prints the kernels of one step by
time. --json writes losses and gradient norms (tests/testdata/training/qwen2.5-1.5b_torch.json holds several such documents)."""
import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

PRESETS = {
    # hidden, layers, heads, kv_heads, head_size, intermediate, vocabulary, rope_theta, epsilon
    "qwen2-tiny": (60, 3, 6, 2, 10, 148, 509, 10000.0, 1e-6),
    "qwen2.5-0.5b": (896, 24, 14, 2, 64, 4864, 151936, 1e6, 1e-6),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 128, 8960, 151936, 1e6, 1e-6),
}
SEED = 1
TOKEN_STREAM = 1 << 40  # TokenKey of probes/node/fsdp/training_options.h
MASK = (1 << 64) - 1


def signed(x):
    return x - (1 << 64) if x >= 1 << 63 else x


def mix_int(x):
    """kernels/mix.h."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key_of(seed, stream):
    return mix_int(seed ^ mix_int(stream))


def shift_right(x, bits):
    """Of 64 bits without sign, in int64."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x):
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ shift_right(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shift_right(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shift_right(x, 31)


def synthetic_normal(key, count, device):
    bits = mix(torch.arange(count, dtype=torch.int64, device=device) ^ signed(key))
    total = (bits & 0xFFFF) + (shift_right(bits, 16) & 0xFFFF) + (shift_right(bits, 32) & 0xFFFF) + shift_right(bits, 48)
    return (total - 131070).to(torch.float32) / 65536


def synthetic_tokens(step, rows, positions, vocabulary):
    key = key_of(SEED, TOKEN_STREAM + step)
    return torch.tensor([[mix_int(key ^ (row << 32) ^ position) % vocabulary for position in range(positions)] for row in range(rows)])


def turn(x, cosine, sine):
    low, high = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-high, low), dim=-1) * sine


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, head_size):
        super().__init__()
        self.heads, self.kv_heads, self.head_size = heads, kv_heads, head_size
        self.q_proj = nn.Linear(hidden, heads * head_size)
        self.k_proj = nn.Linear(hidden, kv_heads * head_size)
        self.v_proj = nn.Linear(hidden, kv_heads * head_size)
        self.o_proj = nn.Linear(heads * head_size, hidden, bias=False)

    def forward(self, x, cosine, sine):
        rows, sequence, _ = x.shape
        q = turn(self.q_proj(x).view(rows, sequence, self.heads, self.head_size).transpose(1, 2), cosine, sine)
        k = turn(self.k_proj(x).view(rows, sequence, self.kv_heads, self.head_size).transpose(1, 2), cosine, sine)
        v = self.v_proj(x).view(rows, sequence, self.kv_heads, self.head_size).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).reshape(rows, sequence, -1))


class Mlp(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Its parameters come in the order of Qwen2Parameters."""

    def __init__(self, hidden, heads, kv_heads, head_size, intermediate, epsilon):
        super().__init__()
        self.self_attn = Attention(hidden, heads, kv_heads, head_size)
        self.mlp = Mlp(hidden, intermediate)
        self.input_layernorm = nn.RMSNorm(hidden, eps=epsilon)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps=epsilon)

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen2(nn.Module):
    compute = torch.bfloat16  # what FSDP makes of the parameters

    def __init__(self, hidden, layers, heads, kv_heads, head_size, intermediate, vocabulary, theta, epsilon):
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, heads, kv_heads, head_size, intermediate, epsilon) for _ in range(layers))
        self.embed_tokens = nn.Embedding(vocabulary, hidden)
        self.norm = nn.RMSNorm(hidden, eps=epsilon)
        self.head_size, self.theta = head_size, theta

    def tables(self, sequence, device):
        half = torch.arange(0, self.head_size, 2, dtype=torch.float32, device=device)
        angle = torch.outer(torch.arange(sequence, dtype=torch.float32, device=device), 1.0 / self.theta ** (half / self.head_size))
        return torch.cat((angle, angle), -1).cos().to(self.compute), torch.cat((angle, angle), -1).sin().to(self.compute)

    def forward(self, tokens):
        cosine, sine = self.tables(tokens.shape[1], tokens.device)
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, cosine, sine)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def build(preset, compiled, compute):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    with torch.device("meta"):
        model = Qwen2(*PRESETS[preset])
    model.compute = compute
    model.to_empty(device="cuda")
    with torch.no_grad():
        for index, (name, parameter) in enumerate(model.named_parameters()):
            values = synthetic_normal(key_of(SEED, index), parameter.numel(), "cuda") * (1.0 / 32.0)
            parameter.copy_((values + (1.0 if "norm" in name else 0.0)).view(parameter.shape))
    policy = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
    for layer in model.layers:
        if compiled:
            layer.compile()
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="qwen2.5-1.5b", choices=sorted(PRESETS))
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.cuda.set_device(0)
    with tempfile.TemporaryDirectory() as folder:
        store = torch.distributed.FileStore(os.path.join(folder, "store"), 1)
        torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda", 0))
        train(args)
        torch.distributed.destroy_process_group()


def train(args):
    compute = torch.float32 if args.float32 else torch.bfloat16
    model = build(args.preset, args.compile, compute)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, fused=True)
    vocabulary = PRESETS[args.preset][6]

    def step(tokens):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.view(-1, vocabulary).float(), tokens[:, 1:].reshape(-1))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss, norm

    times, losses, norms = [], [], []
    for number in range(1, args.steps + 1):
        tokens = synthetic_tokens(number - 1, args.rows, args.sequence + 1, vocabulary).cuda()
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss, norm = step(tokens)
        torch.cuda.synchronize()
        if number > 2:
            times.append(time.perf_counter() - start)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        losses.append(loss.item())
        norms.append(norm.item())
        print(f"step {number} loss {loss.item():.6f} gradient norm {norm.item():.6f}", flush=True)
    if times:
        print(f"step {statistics.median(times) * 1e3:.2f} ms median of {len(times)}, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "compute": str(compute).removeprefix("torch."),
                       "preset": args.preset, "rows": args.rows, "sequence": args.sequence, "seed": SEED, "losses": losses,
                       "gradientNorms": norms}, file)
    if args.profile:
        from torch.profiler import ProfilerActivity, profile
        tokens = synthetic_tokens(99, args.rows, args.sequence + 1, vocabulary).cuda()
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            step(tokens)
            torch.cuda.synchronize()
        print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=80))


if __name__ == "__main__":
    main()
