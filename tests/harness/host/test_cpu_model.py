"""What a processor is called, by recorded texts of /proc/cpuinfo."""

import pytest

from perfgate.host.environment import cpu_model

GRAVITON_2 = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

processor\t: 1
BogoMIPS\t: 243.75
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""
GRAVITON_4 = GRAVITON_2.replace("0xd0c", "0xd4f").replace("243.75", "2000.00")
BIG_AND_LITTLE = """processor\t: 0
model name\t: ARMv8 Processor rev 4 (v8l)
CPU implementer\t: 0x41
CPU part\t: 0xd08

processor\t: 1
model name\t: ARMv8 Processor rev 4 (v8l)
CPU implementer\t: 0x41
CPU part\t: 0xd03

Hardware\t: Rockchip RK3399
"""
X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8488C
stepping\t: 8
cpu MHz\t\t: 2400.000
power management:

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8488C
"""
POWER = """processor\t: 0
cpu\t\t: POWER9 (architected), altivec supported
clock\t\t: 2200.000000MHz
"""
RISC_V = """processor\t: 0
hart\t\t: 1
isa\t\t: rv64imafdc
uarch\t\t: sifive,u74-mc
"""


@pytest.mark.parametrize(
    ("text", "machine", "name"),
    [
        (GRAVITON_2, "aarch64", "aarch64 implementer 0x41 part 0xd0c"),
        (GRAVITON_4, "aarch64", "aarch64 implementer 0x41 part 0xd4f"),
        (BIG_AND_LITTLE, "aarch64", "aarch64 implementer 0x41 part 0xd03 + 0xd08"),
        (X86, "x86_64", "Intel(R) Xeon(R) Platinum 8488C"),
        (POWER, "ppc64le", "POWER9 (architected), altivec supported"),
        (RISC_V, "riscv64", "sifive,u74-mc"),
        ("processor\t: 0\n", "s390x", "s390x"),
        ("", "aarch64", "aarch64"),
    ],
)
def test_processors_that_differ_have_different_names(text: str, machine: str, name: str) -> None:
    """All ARM machines were called "aarch64": the thresholds of a Graviton 2 were held against a Graviton 4."""
    assert cpu_model(text, machine) == name
