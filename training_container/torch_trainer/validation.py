"""Validation: computes metrics on all ranks together, in which every image has the same weight."""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from training_container.contract.stopping import StopRequestedError
from training_container.recipe.config import Config
from training_container.recipe.epoch_length import LockstepError, missing
from training_container.torch_trainer.images import Batch

_TOP = 5


def validation_metrics(
    batches: Iterable[Batch],
    logits_of: Callable[[torch.Tensor], torch.Tensor],
    device: torch.device,
    stop_requested: Callable[[], bool],
    config: Config,
) -> dict[str, float]:
    """Return the metrics, which are the same on all ranks. All ranks must call it together.

    Args:
        batches: This rank's share. Ranks may have different numbers of batches, because they synchronize only once.
        stop_requested: A function that returns True if this rank was asked to stop; called before every batch.

    Raises:
        LockstepError: All ranks together have fewer images than the hyperparameter validation_records.
        StopRequestedError: On every rank, because a rank was asked to stop before its last batch.
        ValueError: No rank has an image.
    """
    sums, is_cut = torch.zeros(4, dtype=torch.float64, device=device), False
    for images, labels in batches:
        if is_cut := stop_requested():
            break
        logits, on_device = logits_of(images), labels.to(device, non_blocking=True)
        best = logits.topk(min(_TOP, config.classes)).indices == on_device[:, None]
        loss = cross_entropy(logits, on_device, reduction="sum")
        sums += torch.stack([loss.double(), best[:, 0].sum(), best.any(1).sum(), torch.full_like(loss, len(labels))])
    totals = torch.cat([sums, torch.tensor([float(is_cut)], dtype=torch.float64, device=device)])
    dist.all_reduce(totals)
    loss_sum, top1, top5, count, cuts = totals.tolist()
    if cuts:
        raise StopRequestedError
    if not count:
        raise ValueError(
            "The channel 'validation' has no records on any rank. Upload TFRecord files to its S3 prefix, or remove "
            "the channel to train without validation."
        )
    if count < config.validation_records:
        raise LockstepError(missing("validation", round(count), config.validation_records))
    metrics = {"validation_loss": loss_sum / count, "validation_top1": top1 / count}
    return metrics | ({"validation_top5": top5 / count} if config.classes > _TOP else {})
