"""A container that ignores SIGTERM and prints the time since it was received."""

import signal
import time

asked_at: list[float] = []
signal.signal(signal.SIGTERM, lambda *_: asked_at.append(time.monotonic()))
print("running", flush=True)
while True:
    time.sleep(0.1)
    if asked_at:
        print(f"seconds since SIGTERM: {time.monotonic() - asked_at[0]:.1f}", flush=True)
