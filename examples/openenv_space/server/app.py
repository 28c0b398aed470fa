"""TextCraft as an OpenEnv application: ``uvicorn server.app:app``. Any installed environment may take its place."""

from agentgym_rl.envs.protocol.openenv.server import create_openenv_app
from agentgym_rl.envs.protocol.server import Settings

app = create_openenv_app(Settings(envs={"textcraft": {}}))
