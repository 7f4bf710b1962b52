"""Harness for one kernel called from Python (Triton, CuTe DSL, a torch extension) under Nsight Compute.

Model-derived shapes, dtype and layout; a correctness reference; poisoned output; L2 flush. Replace the parts between
REPLACE and END; the example is a residual add with RMSNorm.

    python kernel_harness.py --tokens 4096 --hidden 8192
    ncu --profile-from-start off --set full --target-processes all --kernel-name regex:NAME --launch-count 5 -o kernel-v1 \
        python kernel_harness.py --tokens 4096 --hidden 8192
    infer-forge ncu digest kernel-v1.ncu-rep --kernel NAME

Exit codes: 0 correct and timed; 1 wrong result.
"""

import argparse
import statistics
import sys

import torch

# REPLACE: shapes, strides and dtype as the trace of the model run has them.
DTYPE = torch.bfloat16
RELATIVE, ABSOLUTE = 1.6e-2, 1e-3
EPSILON = 1e-6


def inputs(args):
    """Tensors with the layout of the model run (a padded row stride stays padded)."""
    generator = torch.Generator(device="cuda").manual_seed(7)
    wide = (args.tokens, args.stride or args.hidden)
    make = lambda *size: torch.randn(*size, generator=generator, device="cuda", dtype=torch.float32).to(DTYPE)  # noqa: E731
    return make(*wide)[:, : args.hidden], make(*wide)[:, : args.hidden], make(args.hidden)


def candidate(x, residual, weight, out):
    """The kernel under test; it must write into `out`."""
    value = (x + residual).float()
    out.copy_((value * torch.rsqrt(value.square().mean(-1, keepdim=True) + EPSILON) * weight.float()).to(DTYPE))


def reference(x, residual, weight):
    """The same in double precision, written apart from the kernel."""
    value = x.double() + residual.double()
    return value / (value.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weight.double()


# END


def main():
    """Check, time, and leave the launches to profile between profiler start and stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--stride", type=int, default=0)
    parser.add_argument("--launches", type=int, default=5)
    args = parser.parse_args()
    given = inputs(args)
    out = torch.full_like(given[0], float("nan"))  # poison: what is not written stays NaN
    candidate(*given, out)
    torch.cuda.synchronize()
    want = reference(*given)
    wrong = int((~torch.isclose(out.double(), want, rtol=RELATIVE, atol=ABSOLUTE)).sum())
    print(f"correct {'no' if wrong else 'yes'}, wrong elements {wrong} of {want.numel()}")
    if wrong:
        return 1
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    flush = torch.empty(2 * max(l2, 1 << 20), dtype=torch.uint8, device="cuda")
    times = []
    for i in range(53):  # three warm-up runs are not counted
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        candidate(*given, out)
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) * 1000)
    print(
        f"time_us median {statistics.median(times):.2f} min {min(times):.2f} max {max(times):.2f} over 50 runs, cold L2"
    )
    torch.cuda.cudart().cudaProfilerStart()
    for _ in range(args.launches):
        candidate(*given, out)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
