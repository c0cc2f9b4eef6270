"""x."""
import sys, tempfile, collections, time
from pathlib import Path
import conformance.claims
from conformance.claim import CLAIMS
from conformance.local import local_place
from conformance.runner import run
names=sys.argv[1:]
claims=[c for c in CLAIMS if not names or c.name in names or c.area in names]
t=time.time()
with tempfile.TemporaryDirectory() as f, local_place(Path(f)) as place:
    results,left=run(place, claims, workers=24, instances=8)
for r in results:
    if r.outcome=="not met" and not r.claim.not_modelled: print("NOT MET", r.claim.area, r.claim.name, r.detail[:600], round(r.seconds,1))
    if r.outcome=="met" and r.claim.not_modelled: print("STALE", r.claim.name)
    if r.outcome=="not met" and r.claim.not_modelled: print("nm", r.claim.name, r.detail[:300], round(r.seconds,1))
print(collections.Counter(r.outcome for r in results), len(claims), time.time()-t)
for r in sorted(results,key=lambda r:-r.seconds)[:15]: print(r.claim.name, round(r.seconds,1))
print("LEFT", left)
