"""Folders like /sys, of machines that are not here."""

from snapml_run.cores import Core, Machine


def write_system(root, *, packages, threads=1, interleaved=False, gpus=()):
    """Describe a machine: cores of each package, its memory node; the package of each GPU."""
    n_cores = sum(packages)
    package_of = [p for p, n in enumerate(packages) for _ in range(n)]
    if interleaved:
        package_of = [core % len(packages) for core in range(n_cores)]
    cpus_of = {p: [] for p in range(len(packages))}
    for core, package in enumerate(package_of):
        cpus_of[package] += [core + n_cores * thread for thread in range(threads)]
    for core, package in enumerate(package_of):
        siblings = ",".join(str(core + n_cores * thread) for thread in range(threads))
        for thread in range(threads):
            folder = root / "devices/system/cpu" / f"cpu{core + n_cores * thread}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(siblings + "\n")
            (folder / "core_siblings_list").write_text(
                ",".join(map(str, sorted(cpus_of[package]))) + "\n"
            )
    for package, cpus in cpus_of.items():
        folder = root / "devices/system/node" / f"node{package}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(",".join(map(str, sorted(cpus))) + "\n")
    for number, package in enumerate(gpus):
        folder = root / "bus/pci/devices" / f"0000:{number + 1:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{package}\n")
        cpus = cpus_of.get(package, [])
        (folder / "local_cpulist").write_text(",".join(map(str, sorted(cpus))) + "\n")
    return root


def write_nvidia_smi(folder, n_gpus):
    """Write a program that lists so many GPUs as the real one does."""
    lines = "".join(
        f"{k}, GPU-{k}a00beef-0000-0000-0000-000000000000, 00000000:{k + 1:02X}:00.0\\n"
        for k in range(n_gpus)
    )
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    path.chmod(0o755)
    return path


def machine(n_cores, *, n_usable=None, why_unbound=None):
    """Return a machine of cores with one thread each."""
    cores = tuple(Core(k, (k,)) for k in range(n_cores))
    return Machine(cores, n_cores if n_usable is None else n_usable, why_unbound)
