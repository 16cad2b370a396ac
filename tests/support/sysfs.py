"""A sysfs of the test, with PCI network devices that do not exist: what `patchbay-agent --sysfs` reads."""

import os

FAKE = "/run/sysfs"


def fake_device(address, driver, link=None, group=None, parent=None, numa=0):
    """A PCI network device in a sysfs of the test."""
    at = f"{FAKE}/bus/pci/devices/{address}"
    os.makedirs(f"{at}/net/{link}" if link else at)
    os.makedirs(f"{FAKE}/bus/pci/drivers/{driver}", exist_ok=True)
    os.symlink(f"{FAKE}/bus/pci/drivers/{driver}", f"{at}/driver")
    for name, text in (("class", "0x020000"), ("vendor", "0x8086"), ("device", "0x154c"), ("numa_node", str(numa))):
        with open(f"{at}/{name}", "w", encoding="ascii") as file:
            file.write(text + "\n")
    if group is not None:
        os.makedirs(f"{FAKE}/kernel/iommu_groups/{group}", exist_ok=True)
        os.symlink(f"{FAKE}/kernel/iommu_groups/{group}", f"{at}/iommu_group")
    if parent:
        os.symlink(f"{FAKE}/bus/pci/devices/{parent}", f"{at}/physfn")
