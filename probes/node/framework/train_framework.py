"""One rank of a training by PyTorch's FSDP or DeepSpeed's ZeRO-3, on the weights and tokens of the native engine.

  train_framework.py PARAMETERS [FD]

PARAMETERS is JSON: FrameworkJob of probes/observations/framework.h. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are
in the environment, as torchrun sets them. What was seen goes to FD (1 unless given) as frames: a letter (P progress, R result), the
length in four bytes, little endian, and that many bytes; the result is JSON. It tells facts and judges none. What goes wrong is an
exception: its traceback goes to stderr."""
from __future__ import annotations

import dataclasses
import datetime
import hashlib
import importlib
import importlib.util
import json
import math
import os
import struct
import sys
import time
from typing import Any, Callable, Iterator, Protocol

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """The keys of PARAMETERS. Absent ones are 0, false or empty."""

    engine: str = ""  # "torch", "deepspeed"
    strategy: str = ""  # "fsdp2", "fsdp1", "zero3"
    device: str = ""  # "cpu", "cuda"
    implementation: str = ""  # "transformers", "own"; empty: the first where it is there
    model: Json = dataclasses.field(default_factory=dict)
    seed: int = 0  # of the tokens
    weightSeed: int = 0
    weightSpread: float = 0
    rows: int = 0
    sequence: int = 0
    microBatches: int = 0
    steps: int = 0  # before the checkpoint
    moreSteps: int = 0  # after it
    clipNorm: float = 0
    adam: Json = dataclasses.field(default_factory=dict)
    directory: str = ""  # of the checkpoint; empty: none
    resume: bool = False  # load it and do the steps after it
    withoutOptimizer: bool = False  # a planted fault: load the model alone
    ownStore: bool = False  # ranks meet at a store of their own, and not as torchrun arranged it
    listenFd: int = 0  # rank 0's socket at MASTER_PORT, which listens already
    timeoutSeconds: float = 0


@dataclasses.dataclass(frozen=True)
class Place:
    rank: int
    size: int
    local_rank: int

    @staticmethod
    def of_environment() -> Place:
        return Place(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


class Says(Protocol):
    def say(self, text: str) -> None:
        """How far this rank is."""


class Teller:
    """Writes the frames."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def frame(self, kind: bytes, text: str) -> None:
        payload = text.encode()
        data = kind + struct.pack("<I", len(payload)) + payload
        while data:
            data = data[os.write(self.fd, data):]

    def say(self, text: str) -> None:
        self.frame(b"P", text.encode()[:400].decode(errors="ignore"))

    def result(self, facts: Json) -> None:
        self.frame(b"R", json.dumps(facts, allow_nan=False))


# The generators of kernels/mix.h and kernels/training/synthetic.h, bit for bit. torch has no unsigned arithmetic of 64 bits: int64 wraps
# round to the same bits.
MASK = (1 << 64) - 1
TOKEN_STREAM = 1 << 40
CHUNK = 1 << 22


def mix_int(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key_of(seed: int, stream: int) -> int:
    return mix_int((seed & MASK) ^ mix_int(stream))


def signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def fill_normal(parameter: Any, key: int, mean: float, spread: float) -> None:
    import torch

    def shifted(x: Any, bits: int) -> Any:
        return (x >> bits) & ((1 << (64 - bits)) - 1)

    flat = parameter.detach().view(-1)
    for first in range(0, flat.numel(), CHUNK):
        last = min(first + CHUNK, flat.numel())
        x = torch.arange(first, last, dtype=torch.int64, device=flat.device) ^ signed(key)
        x = x + signed(0x9E3779B97F4A7C15)
        x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
        x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
        x = x ^ shifted(x, 31)
        total = (x & 0xFFFF) + (shifted(x, 16) & 0xFFFF) + (shifted(x, 32) & 0xFFFF) + shifted(x, 48)
        flat[first:last] = (total - 131070).to(torch.float32) / 65536 * spread + mean


def tokens_of(job: Job, place: Place, step: int, micro_batch: int) -> list[list[int]]:
    """Rows of sequence + 1 tokens; step and micro_batch count from 0."""
    batch = (step * job.microBatches + micro_batch) * place.size + place.rank
    key = key_of(job.seed, TOKEN_STREAM + batch)
    words = job.model["vocabulary"]
    return [[mix_int(key ^ (row << 32) ^ position) % words for position in range(job.sequence + 1)] for row in range(job.rows)]


def own_qwen2(model: Json) -> Any:
    """A Qwen2 decoder with the parameters of transformers', by name and order, for images without it."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    hidden, heads, kv_heads, size = (model[name] for name in ("hidden", "heads", "kvHeads", "headSize"))
    epsilon, theta, tied = model["rmsEpsilon"], model["ropeTheta"], model.get("tiedEmbedding", False)

    def turn(x: Any, cosine: Any, sine: Any) -> Any:
        low, high = x.chunk(2, dim=-1)
        return x * cosine + torch.cat((-high, low), dim=-1) * sine

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_proj = nn.Linear(hidden, heads * size)
            self.k_proj = nn.Linear(hidden, kv_heads * size)
            self.v_proj = nn.Linear(hidden, kv_heads * size)
            self.o_proj = nn.Linear(heads * size, hidden, bias=False)

        def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
            rows, sequence, _ = x.shape
            q = turn(self.q_proj(x).view(rows, sequence, heads, size).transpose(1, 2), cosine, sine)
            k = turn(self.k_proj(x).view(rows, sequence, kv_heads, size).transpose(1, 2), cosine, sine)
            v = self.v_proj(x).view(rows, sequence, kv_heads, size).transpose(1, 2)
            k, v = (one.repeat_interleave(heads // kv_heads, dim=1) for one in (k, v))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o_proj(out.transpose(1, 2).reshape(rows, sequence, -1))

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate_proj = nn.Linear(hidden, model["intermediate"], bias=False)
            self.up_proj = nn.Linear(hidden, model["intermediate"], bias=False)
            self.down_proj = nn.Linear(model["intermediate"], hidden, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x: Any) -> Any:
            wide = x.float()
            return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)

    class DecoderLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_attn = Attention()
            self.mlp = Mlp()
            self.input_layernorm = Norm()
            self.post_attention_layernorm = Norm()

        def forward(self, x: Any, cosine: Any, sine: Any) -> Any:
            x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
            return x + self.mlp(self.post_attention_layernorm(x))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed_tokens = nn.Embedding(model["vocabulary"], hidden)
            self.layers = nn.ModuleList(DecoderLayer() for _ in range(model["layers"]))
            self.norm = Norm()

        def forward(self, tokens: Any) -> Any:
            x = self.embed_tokens(tokens)
            half = torch.arange(0, size, 2, dtype=torch.float32, device=tokens.device)
            places = torch.arange(tokens.shape[1], dtype=torch.float32, device=tokens.device)
            angle = torch.outer(places, 1.0 / theta ** (half / size)).repeat(1, 2)
            cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
            for layer in self.layers:
                x = layer(x, cosine, sine)
            return self.norm(x)

    class Qwen2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Decoder()
            self.lm_head = nn.Linear(hidden, model["vocabulary"], bias=False)
            if tied:
                self.lm_head.weight = self.model.embed_tokens.weight

        def forward(self, input_ids: Any) -> Any:
            return self.lm_head(self.model(input_ids))

    return Qwen2()


def transformers_qwen2(model: Json) -> Any:
    import transformers

    # rope_theta is what transformers 4 reads, rope_parameters what 5 does.
    config = transformers.Qwen2Config(
        hidden_size=model["hidden"], num_hidden_layers=model["layers"], num_attention_heads=model["heads"], num_key_value_heads=model["kvHeads"],
        head_dim=model["headSize"], intermediate_size=model["intermediate"], vocab_size=model["vocabulary"], rms_norm_eps=model["rmsEpsilon"],
        tie_word_embeddings=model.get("tiedEmbedding", False), rope_theta=model["ropeTheta"],
        rope_parameters={"rope_type": "default", "rope_theta": model["ropeTheta"]}, hidden_act="silu", attention_dropout=0.0,
        use_sliding_window=False, use_cache=False, max_position_embeddings=1 << 17)
    return transformers.Qwen2ForCausalLM(config)


def stored_order(module: Any) -> list[tuple[str, Any]]:
    """Name and parameter in the order of Qwen2Parameters: layers first, then the root."""
    named = list(module.named_parameters())
    return [one for one in named if ".layers." in one[0]] + [one for one in named if ".layers." not in one[0]]


def build(job: Job, device: Any, facts: Json) -> Any:
    """The whole model on each rank, as the usual scripts make it, with the native engine's weights."""
    import torch

    transformers = importlib.util.find_spec("transformers") is not None if job.implementation != "own" else False
    facts["implementation"] = "transformers" if transformers or job.implementation == "transformers" else "own"
    module = (transformers_qwen2 if facts["implementation"] == "transformers" else own_qwen2)(job.model)
    module = module.to(torch.float32).to(device).train()
    with torch.no_grad():
        for index, (name, parameter) in enumerate(stored_order(module)):
            mean = 1.0 if name.endswith("norm.weight") else 0.0
            fill_normal(parameter, key_of(job.weightSeed, index), mean, job.weightSpread)
    facts["parameters"] = sum(parameter.numel() for parameter in module.parameters())
    return module


class TorchEngine:
    """PyTorch's FSDP: a unit per decoder layer, and the root."""

    def __init__(self, job: Job, module: Any) -> None:
        import torch

        self.job = job
        layers = module.model.layers
        mixed = job.device == "cuda"
        if job.strategy == "fsdp2":
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if mixed else MixedPrecisionPolicy()
            for layer in layers:
                fully_shard(layer, mp_policy=policy)
            self.module = fully_shard(module, mp_policy=policy)
        else:
            import functools

            from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
            from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

            wrap = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(layers[0])})
            precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if mixed else None
            self.module = FullyShardedDataParallel(
                module, auto_wrap_policy=wrap, mixed_precision=precision, sharding_strategy=ShardingStrategy.FULL_SHARD, use_orig_params=True,
                device_id=torch.cuda.current_device() if mixed else torch.device("cpu"))
        adam = job.adam
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=adam["rate"], betas=(adam["beta1"], adam["beta2"]), eps=adam["epsilon"],
                                           weight_decay=adam["weightDecay"])

    def backward(self, loss: Any) -> None:
        (loss / self.job.microBatches).backward()

    def optimize(self) -> float:
        """The norm of all gradients before they are clipped."""
        import torch

        if self.job.strategy == "fsdp1":
            norm = self.module.clip_grad_norm_(self.job.clipNorm)
        else:
            norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.job.clipNorm)
            norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def state(self) -> Json:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.module, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def local_state(self) -> Iterator[tuple[str, Any]]:
        for name, parameter in self.module.named_parameters():
            yield name, parameter
            state = self.optimizer.state.get(parameter, {})
            for key in sorted(state):
                yield key, state[key]

    def save(self, directory: str) -> None:
        import torch.distributed.checkpoint as dcp

        dcp.save(self.state(), checkpoint_id=directory)

    def load(self, directory: str) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_state_dict

        state = self.state()
        if self.job.withoutOptimizer:
            dcp.load({"model": state["model"]}, checkpoint_id=directory)
            set_model_state_dict(self.module, state["model"])
            return
        dcp.load(state, checkpoint_id=directory)
        set_state_dict(self.module, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


class DeepSpeedEngine:
    """DeepSpeed's ZeRO-3, which takes steps by itself when it has its number of micro-batches."""

    def __init__(self, job: Job, module: Any) -> None:
        import deepspeed
        import torch

        self.job = job
        if job.device == "cuda":
            # It takes LOCAL_RANK for the number of a GPU, and fails where each rank sees its own alone, as Ray's actors do.
            os.environ["LOCAL_RANK"] = str(torch.cuda.current_device())
        adam = job.adam
        optimizer = torch.optim.AdamW(module.parameters(), lr=adam["rate"], betas=(adam["beta1"], adam["beta2"]), eps=adam["epsilon"],
                                      weight_decay=adam["weightDecay"])
        config = {"train_micro_batch_size_per_gpu": job.rows, "gradient_accumulation_steps": job.microBatches, "gradient_clipping": job.clipNorm,
                  "bf16": {"enabled": job.device == "cuda"}, "zero_optimization": {"stage": 3}, "zero_allow_untested_optimizer": True}
        self.module, self.optimizer, _, _ = deepspeed.initialize(model=module, optimizer=optimizer, config=config, dist_init_required=False)

    def backward(self, loss: Any) -> None:
        self.module.backward(loss)
        self.module.step()

    def optimize(self) -> float:
        norm = self.module.get_global_grad_norm()
        return float(norm if norm is not None else math.nan)

    def save(self, directory: str) -> None:
        self.module.save_checkpoint(directory)

    def load(self, directory: str) -> None:
        path, _ = self.module.load_checkpoint(directory, load_optimizer_states=not self.job.withoutOptimizer)
        if path is None:
            raise RuntimeError(f"DeepSpeed found no checkpoint in {directory}")

    def local_state(self) -> Iterator[tuple[str, Any]]:
        flat = self.optimizer.fp32_partitioned_groups_flat
        for index, parameters in enumerate(flat):
            yield f"{index}", parameters
            state = self.optimizer.optimizer.state.get(parameters, {})
            for key in sorted(state):
                yield key, state[key]


def state_hash(engine: Any) -> str:
    """Of this rank's shards of parameters and optimizer, in order."""
    import torch

    digest = hashlib.sha256()

    def add(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            local = value.to_local() if hasattr(value, "to_local") else value
            digest.update(f"{name} {tuple(local.shape)} {local.dtype};".encode())
            digest.update(local.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes())
        else:
            digest.update(f"{name} {value};".encode())

    for name, value in engine.local_state():
        add(name, value)
    return digest.hexdigest()


def train(job: Job, place: Place, engine: Any, device: Any, steps: range, tell: Says) -> Iterator[Json]:
    import torch

    def settled() -> float:
        if job.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    for step in steps:
        tell.say(f"step {step + 1}")
        batches = [torch.tensor(tokens_of(job, place, step, one), device=device) for one in range(job.microBatches)]
        start = settled()
        losses = []
        for tokens in batches:
            out = engine.module(tokens[:, :-1])
            logits = getattr(out, "logits", out)
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), tokens[:, 1:].reshape(-1))
            losses.append(loss.detach())
            engine.backward(loss)
        norm = engine.optimize()
        mean = sum(float(loss) for loss in losses) / job.microBatches
        seconds = settled() - start
        finite = math.isfinite(mean) and math.isfinite(norm)
        yield {"loss": mean if math.isfinite(mean) else 0.0, "gradientNorm": norm if math.isfinite(norm) else 0.0, "finite": finite,
               "seconds": seconds}


def versions() -> dict[str, str]:
    """Of what is installed, without loading it."""
    from importlib import metadata

    found = {"python": sys.version.split()[0]}
    for name in ("torch", "transformers", "deepspeed", "ray", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def missing(engine: str) -> str:
    """The first package that the engine needs and this python has not got. One that is there and does not load is an exception."""
    for name in ("torch",) if engine == "torch" else ("torch", "deepspeed"):
        if importlib.util.find_spec(name) is None:
            return name
        importlib.import_module(name)
    return ""


class Launched:
    """How ranks that were started as torchrun starts them meet, and where their checkpoint is."""

    def gpu(self, place: Place) -> int:
        import torch

        return place.local_rank % int(torch.cuda.device_count())

    def join(self, job: Job, place: Place) -> str:
        """The backend."""
        import torch
        import torch.distributed as dist

        timeout = datetime.timedelta(seconds=job.timeoutSeconds or 1800)
        backend = "nccl" if job.device == "cuda" else "gloo"
        if not job.ownStore:
            dist.init_process_group(backend, timeout=timeout)
            return backend
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        # Handed over while it listens: nobody else can have taken the port.
        own = {"is_master": True, "master_listen_fd": job.listenFd} if place.rank == 0 else {}
        store = dist.TCPStore(address, port, place.size, timeout=timeout, wait_for_workers=False, **own)
        device = torch.device("cuda", torch.cuda.current_device()) if job.device == "cuda" else None
        dist.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=timeout, device_id=device)
        return backend

    def save(self, job: Job, engine: Any) -> None:
        engine.save(job.directory)

    def load(self, job: Job, engine: Any) -> None:
        engine.load(job.directory)

    def leave(self) -> None:
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()


def run(job: Job, place: Place, tell: Says, facts: Json, launched: Launched) -> None:
    import torch

    device = torch.device("cpu")
    if job.device == "cuda":
        torch.cuda.set_device(launched.gpu(place))
        device = torch.device("cuda", torch.cuda.current_device())
        facts["device"] = torch.cuda.get_device_name()
    tell.say("joining")
    facts["backend"] = launched.join(job, place)
    tell.say("making the model")
    engine = (DeepSpeedEngine if job.engine == "deepspeed" else TorchEngine)(job, build(job, device, facts))
    facts["compute"] = "bfloat16" if job.device == "cuda" else "float32"
    clock: Callable[[], float] = time.perf_counter
    if job.resume:
        tell.say("loading the checkpoint")
        start = clock()
        launched.load(job, engine)
        facts["loadSeconds"] = clock() - start
        facts["stateHash"] = state_hash(engine)
    else:
        facts["steps"] = list(train(job, place, engine, device, range(job.steps), tell))
        if job.directory:
            tell.say("saving the checkpoint")
            facts["stateHash"] = state_hash(engine)
            start = clock()
            launched.save(job, engine)
            facts["saveSeconds"] = clock() - start
    if job.directory:
        facts["moreSteps"] = list(train(job, place, engine, device, range(job.steps, job.steps + job.moreSteps), tell))
    launched.leave()


def begun(job: Job, place: Place) -> Json:
    """What is told before anything is done. With a package that is missing, nothing can be."""
    return {"process": os.getpid(), "ranks": place.size, "versions": versions(), "missing": missing(job.engine)}


def main() -> None:
    if not getattr(sys.flags, "safe_path", False) and sys.path:
        del sys.path[0]  # where this file is; the user's folders come from PYTHONPATH
    job = Job(**json.loads(sys.argv[1]))
    place = Place.of_environment()
    tell = Teller(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    tell.say("loading " + job.engine)
    facts = begun(job, place)
    if not facts["missing"]:
        run(job, place, tell, facts, Launched())
    tell.result(facts)


if __name__ == "__main__":
    main()
