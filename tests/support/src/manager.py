"""Runs an application of os-ken: what its osken-manager did, which is no longer shipped."""

import sys

from os_ken.lib import hub

hub.patch(thread=False)

from os_ken import cfg, log

log.early_init_log()

from os_ken import flags  # noqa: F401 (declares the options of the tester)
from os_ken.base.app_manager import AppManager
from os_ken.controller import controller  # noqa: F401 (declares where it listens)

application = sys.argv.pop(1)
manager = AppManager.get_instance()
manager.load_apps([application, "os_ken.controller.ofp_handler"])
cfg.CONF(project="os_ken")
log.init_log()
contexts = manager.create_contexts()
services = manager.instantiate_apps(**contexts)
try:
    hub.joinall(services)
finally:
    manager.close()
