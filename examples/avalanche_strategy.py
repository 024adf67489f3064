"""everbit in an Avalanche script, where `Naive` or `CWRStar` would stand; needs everbit[avalanche].

Two new classes of Fashion-MNIST at a time; after each experience Avalanche prints accuracy and forgetting on the whole
test stream.
"""

import torch
from avalanche.benchmarks import nc_benchmark
from avalanche.evaluation.metrics import accuracy_metrics, forgetting_metrics
from avalanche.logging import TextLogger
from avalanche.training.plugins import EvaluationPlugin
from torch.utils.data import TensorDataset

import everbit
from everbit.avalanche.strategy import EverbitStrategy
from everbit.data.datasets import load

EVERY = 10  # takes every tenth image, to be quick; 1 for all 3,000


def tensors(images, labels):
    """uint8 images [N, H, W, C] as the data set of tensors [N, C, H, W] that Avalanche takes."""
    dataset = TensorDataset(torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels))
    dataset.targets = labels.tolist()
    return dataset


data = load("fashion_demo")
train = tensors(data.train_images[::EVERY], data.train_labels[::EVERY])
test = tensors(data.test_images[::EVERY], data.test_labels[::EVERY])
benchmark = nc_benchmark(train, test, n_experiences=5, task_labels=False, seed=0)

learner = everbit.Learner.open("birealnet18", settings=everbit.Settings(classes=10))
evaluator = EvaluationPlugin(accuracy_metrics(stream=True), forgetting_metrics(stream=True), loggers=TextLogger())
strategy = EverbitStrategy(learner=learner, evaluator=evaluator)

for experience in benchmark.train_stream:
    strategy.train(experience)
    results = strategy.eval(benchmark.test_stream)

print(f"final accuracy {results['Top1_Acc_Stream/eval_phase/test_stream/Task000']:.3f}")
print(f"replay memory {learner.memory_use['replay']:,} bytes")
