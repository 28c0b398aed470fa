"""TransferQueue's storage in the process of its controller, where one unit is enough."""

from __future__ import annotations

from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf
from transfer_queue.storage import SimpleStorageUnit
from transfer_queue.storage.bootstrap import StorageBootstrapProvider
from transfer_queue.storage.bootstrap.simple_storage_bootstrap import initialize_simple_storage

_Unit = SimpleStorageUnit.__ray_metadata__.modified_class


def provide(config: DictConfig) -> dict[str, Any]:
    """Start the storage units that TransferQueue's configuration asks for; returns the actors that it must end."""
    settings = config.backend.SimpleStorage
    if settings.num_data_storage_units > 1 or (settings.get("ssd_offload") or {}).get("enabled"):
        return initialize_simple_storage(config)  # type: ignore[no-any-return]
    controller = ray.get_actor("TransferQueueController", namespace="transfer_queue")
    place = ray.get(controller.__ray_call__.remote(_begin, OmegaConf.to_container(settings)))
    settings.zmq_info = {"TransferQueueStorageUnit#0": place}
    return {}


def _begin(controller: Any, settings: dict[str, Any]) -> Any:
    """In the controller's process: a unit that lives as long as the controller; returns where it is reached."""
    controller.storage_unit = _Unit(settings)
    return controller.storage_unit.get_zmq_server_info()


StorageBootstrapProvider.register_provider("SimpleStorage")(provide)
