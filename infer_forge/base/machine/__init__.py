"""What runs on this machine now: GPUs (NVML, nvidia-smi, amd-smi), the processes on them, and who holds a device.

    state = snapshot()                      # the best source that answers
    state.gpus                              # None: could not see; []: looked, none there
    compare(before, after)                  # what changed between two, for the record of a clean-up

Unknown is None, never 0; an empty list means "looked, and saw none". Nothing here starts, stops or sets anything.
"""

from infer_forge.base.lazy import attach

__getattr__, __dir__ = attach(
    __name__,
    {
        "GpuState": "model",
        "MachineState": "model",
        "MigDevice": "model",
        "ProcessUse": "model",
        "RuntimeState": "model",
        "compare": "model",
        "snapshot": "looking",
        "parse_nvidia_smi": "nvidia_smi",
        "parse_amd_smi": "amd_smi",
        "runtime_state": "processes",
        "device_holders": "processes",
        "sees_all_processes": "processes",
    },
)
