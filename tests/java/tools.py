"""Kafka's command-line tools, told where the broker is."""

from tests.java.distribution import Distribution
from tests.support.serving.kafka import Broker

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSUMER_GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
NUMBERS = [str(number) for number in range(20)]


class Tools:
    """Every tool, told where the broker is."""

    def __init__(self, distribution: Distribution, broker: Broker) -> None:
        self._distribution = distribution
        self.address = broker.address

    def run(self, tool: str, *arguments: str, lines: str = "") -> str:
        return self._distribution.run(tool, "--bootstrap-server", self.address, *arguments, lines=lines)

    def run_bare(self, tool: str, *arguments: str) -> str:
        return self._distribution.run(tool, *arguments)

    def create(self, topic: str, partitions: int = 1, *options: str) -> None:
        self.run(TOPICS, "--create", "--topic", topic, "--partitions", str(partitions), *options)

    def fill(self, topic: str, partitions: int = 1) -> None:
        self.create(topic, partitions)
        self.run(f"{TOOLS}.ConsoleProducer", "--topic", topic, lines="\n".join(NUMBERS) + "\n")

    def consume(self, topic: str, *options: str, count: int = len(NUMBERS)) -> list[str]:
        bounds = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000")
        return self.run(CONSOLE_CONSUMER, "--topic", topic, *bounds, *options).splitlines()
