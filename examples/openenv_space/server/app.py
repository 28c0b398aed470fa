"""TextCraft as an OpenEnv application; any installed environment may take its place.

cd examples/openenv_space && uvicorn server.app:app
"""

from agentgym_rl.envs.protocol.openenv.server import create_openenv_app
from agentgym_rl.envs.protocol.server import Settings

app = create_openenv_app(Settings(envs={"textcraft": {}}))
