"""ScienceWorld's simulator: one Java process, in which many games live.

Every call takes the process's lock, since games that load or move at the same moment disturb each other: the simulator
draws its games from a random generator that all share. In turns they do not, as the tests show. It has one list of
simplifications for all, too: each game's is set anew before it moves.
"""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from scienceworld.constants import BASEPATH, JAR_PATH  # first: where it is missing, it is what has to be installed

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # isort: skip
from py4j.protocol import Py4JError, Py4JJavaError  # isort: skip

from agentgym_rl.envs.core import EnvUnavailable, MissingExtra

T = TypeVar("T")

JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""``hashCode=2`` gives all objects one identity hash: the simulator lists objects in the order of hash sets, which
otherwise changes from load to load."""

TIMEOUT = 600.0
"""Seconds a call may take; the longest, a solution of a game of ``boil``, takes some ten."""

UNKNOWN = ("No known action matches that input.", "Unknown action.")
"""How the simulator's answer to an invalid action begins."""


class JavaMissing(MissingExtra):
    """ScienceWorld's simulator runs in Java, and there is none; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What an action led to."""

    text: str
    score: int
    """Of the game so far, in percent; negative when it was lost."""
    completed: bool
    moves: int
    """Moves of the game's clock so far. Looking around takes none, waiting up to eleven."""

    @property
    def invalid(self) -> bool:
        """Whether the simulator knew no such action."""
        return self.text.startswith(UNKNOWN)

    @property
    def over(self) -> bool:
        """Whether the game was won or lost."""
        return self.completed or self.score < 0


class Engine:
    """A Java process; it ends with this one.

    Raises:
        JavaMissing: there is no ``java``.
        EnvUnavailable: Java does not start.
    """

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise JavaMissing(
                "environment 'sciworld' needs Java 8 or later, and no `java` is on the PATH; install one, for example "
                "with: apt-get install default-jre-headless, brew install openjdk, or conda install -c conda-forge "
                "openjdk"
            )
        try:
            port, self._process = launch_gateway(
                classpath=JAR_PATH,
                javaopts=list(JVM_OPTIONS),
                die_on_exit=True,
                java_path=java,
                cwd=BASEPATH,
                return_proc=True,
            )
        except (OSError, ValueError) as error:  # py4j reads the port from a process that wrote none
            options = " ".join(JVM_OPTIONS)
            raise EnvUnavailable(f"ScienceWorld's simulator does not start; try: {java} {options} -version") from error
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, read_timeout=TIMEOUT))
        self._lock = threading.Lock()
        self.dead = False
        """Whether a call found the process gone or without an answer, or it is that of a parent."""
        self.simplified: str | None = None
        """The simplifications of the game that moved last; None where that is not known."""

    def open(self) -> Any:
        """A new game's Java object."""
        return self.call(lambda: self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface())

    def call(self, function: Callable[[], T]) -> T:
        """What the function makes of the process, while no other thread uses it.

        Raises:
            EnvUnavailable: the simulator raised, or the process is gone.
        """
        if self.dead:
            raise EnvUnavailable("ScienceWorld's simulator is gone")
        with self._lock:
            try:
                return function()
            except Py4JJavaError as error:
                raise EnvUnavailable(f"ScienceWorld's simulator failed: {error.java_exception}") from error
            except (Py4JError, OSError) as error:
                self.stop()
                raise EnvUnavailable(f"ScienceWorld's simulator is gone: {error}") from error

    def simplify(self, names: str) -> None:
        """Set the simplifications of the game that moves next; inside of :meth:`call`."""
        if names != self.simplified:
            self.simplified = None
            self._gateway.jvm.main.scala.scienceworld.runtime.SimplifierProcessor.parseSimplificationStr(names)
            self.simplified = names

    def stop(self) -> None:
        """End the process and with it all its games."""
        self.dead = True
        self._process.kill()

    def forget(self) -> None:
        """Leave the process to the parent, after a fork: py4j tells it of each object that is freed here, too."""
        self.dead = True
        self._gateway._gateway_client.is_connected = False


class Simulation:
    """One game at a time, again and again; see scienceworld's ``PythonInterface``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._java = engine.open()
        self._simplified = ""

    def load(self, family: str, variation: int, simplifications: str = "", gold: bool = False) -> tuple[str, str]:
        """Begin a game and look around, as AgentGym does; what is to be done, and what is seen.

        Args:
            simplifications: names, separated by commas.
            gold: have a solution made for :meth:`gold`, which takes up to seconds.
        """

        def begin() -> tuple[str, str]:
            self.engine.simplified = None
            self._java.load(family, variation, simplifications, gold)
            self._simplified = str(self._java.getSimplificationsUsed()).replace(", ", ",")
            self.engine.simplified = self._simplified
            return str(self._java.getTaskDescription()), str(self._java.step("look around"))

        return self.engine.call(begin)

    def step(self, action: str) -> Turn:
        def act() -> Turn:
            self.engine.simplify(self._simplified)
            text = str(self._java.step(action))
            score = round(100 * self._java.getScore())
            return Turn(text, score, bool(self._java.getCompleted()), int(self._java.getNumMoves()))

        return self.engine.call(act)

    def gold(self) -> list[str]:
        """Actions that solve the game loaded; some may follow its end."""
        return self.engine.call(lambda: [str(action) for action in self._java.getGoldActionSequence()])
