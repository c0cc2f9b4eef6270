"""Scripts of Hugging Face's Trainer and of Lightning, without a word about traingrid, save when the job is stopped.

Each runs in one rank. In several, the handlers act for each rank alone: `JITCheckpointCallback` of transformers 5.24.0
(trainer_jit_checkpoint.py) saves in the step in which its own rank gets the signal, and `_sigterm_notifier_fn` of
lightning 2.6.6 (pytorch/trainer/connectors/signal_connector.py) calls a collective operation in the signal handler. So
ranks that are in different steps wait for each other.
"""

import signal
import time
from pathlib import Path

import torch

from tests.torch.torch_hosts import TorchHosts

HOST = "127.0.0.1"
TRANSFORMERS = """
import os, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

class Says(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 5:
            print("running", flush=True)

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000
    def __getitem__(self, index):
        return {"input_ids": torch.arange(16), "labels": torch.arange(16)}

model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2))
arguments = TrainingArguments(
    output_dir=os.environ["SAGEMAKER_BASE_DIR"] + "/checkpoints", max_steps=1_000_000, save_strategy="no", report_to=[],
    use_cpu=True, dataloader_num_workers=1, enable_jit_checkpoint=True, disable_tqdm=True,
)
Trainer(model=model, args=arguments, train_dataset=Data(), callbacks=[Says()]).train()
"""
LIGHTNING = """
import os, time, torch
import lightning
from lightning.pytorch.callbacks import OnExceptionCheckpoint

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        time.sleep(0.01)
        if index == 5:
            print("running", flush=True)
        return self.layer(batch[0]).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

dataset = torch.utils.data.TensorDataset(torch.ones(1_000_000, 4))
saves = OnExceptionCheckpoint(os.environ["SAGEMAKER_BASE_DIR"] + "/checkpoints", filename="last")
trainer = lightning.Trainer(
    accelerator="cpu", devices=1, max_epochs=1, callbacks=[saves], logger=False, enable_progress_bar=False
)
trainer.fit(Model(), torch.utils.data.DataLoader(dataset, num_workers=1))
"""


def stopped(text: str, folder: Path) -> TorchHosts:
    """Stop a script on one host in the middle of its training, and return the host."""
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text(text)
    for channel in ("train", "validation"):
        (folder / "data" / channel).mkdir(parents=True)
    hosts = TorchHosts(folder=folder / "job", data=folder / "data", source=folder / "source")
    hosts.start([HOST], processes=1)
    try:
        deadline = time.monotonic() + 240
        while "running" not in hosts.log(1):
            assert time.monotonic() < deadline, hosts.log(1)
            assert hosts.trains[HOST].poll() is None, hosts.log(1)
            time.sleep(0.2)
        hosts.trains[HOST].send_signal(signal.SIGTERM)
        assert hosts.wait(100) == [143], hosts.log(1)
    finally:
        hosts.kill()
    return hosts


def test_the_trainer_of_transformers_saves(tmp_path: Path) -> None:
    (saved,) = stopped(TRANSFORMERS, tmp_path).checkpoints.glob("checkpoint-*")
    names = {path.name for path in saved.iterdir()}
    assert {"model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json"} <= names
    assert not any("incomplete" in name for name in names)


def test_the_trainer_of_lightning_saves(tmp_path: Path) -> None:
    (saved,) = stopped(LIGHTNING, tmp_path).checkpoints.glob("*.ckpt")
    assert torch.load(saved, weights_only=False)["global_step"] >= 5
