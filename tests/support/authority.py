"""Certificates of an authority of the test's own."""

import os
import subprocess
import uuid


def authority(folder, address="127.0.0.1"):
    """Makes ca.crt, and server.crt, client.crt with their keys."""
    os.makedirs(folder, exist_ok=True)

    def openssl(*command):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=test-ca", "-keyout", "ca.key", "-out", "ca.crt",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    for name, extra in (("server", f"subjectAltName=DNS:kubernetes.default.svc,DNS:localhost,IP:{address},IP:::1"),
                        ("client", "extendedKeyUsage=clientAuth")):
        with open(f"{folder}/{name}.ext", "w", encoding="utf-8") as file:
            file.write(extra + "\n")
        openssl(*new, "-subj", f"/O=system:masters/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "2", "-set_serial",
                str(uuid.uuid4().int >> 65), "-extfile", f"{name}.ext", "-out", f"{name}.crt")
