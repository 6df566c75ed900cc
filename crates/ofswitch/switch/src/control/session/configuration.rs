//! Configuration of the switch and of asynchronous messages by a controller.

use super::super::shared::set_misses;
use super::Session;
use crate::wire::{
    AsyncConfig, AsyncKind, Config, ConfigFlags, Fault, PacketInReason, Role, Version,
};

const TTL: u32 = 1 << PacketInReason::InvalidTtl as u32;

impl Session {
    /// Returns the configuration of this controller, as far as it is not the same for all.
    pub(super) fn config(&self, version: Version) -> Config {
        let known = self.shared.peers.with(self.number, |peer| {
            let ttl = peer.reasons(version, AsyncKind::PacketIn, false) & TTL != 0;
            (ttl && version == Version::V10, peer.miss_send_len)
        });
        let (ttl, miss_send_len) = known.unwrap_or_default();
        let ttl = if ttl { ConfigFlags::INVALID_TTL } else { ConfigFlags::default() };
        let fragments = self.shared.fragments();
        Config { flags: ConfigFlags(fragments | ttl.0), miss_send_len }
    }

    /// Sets the configuration. A slave cannot set parts that concern all controllers.
    pub(super) fn set_config(&mut self, config: Config, version: Version) -> Result<(), Fault> {
        let fragments = config.flags.0 & 3;
        if fragments != self.shared.fragments() {
            self.may_write()?;
            let _turn = self.shared.turns.wait();
            self.shared.set_fragments(fragments)?;
        }
        let mut all = self.shared.peers.lock();
        if let Some(peer) = all.peers.iter_mut().find(|peer| peer.number == self.number) {
            peer.miss_send_len = config.miss_send_len;
            if version == Version::V10 {
                let wanted = config.flags.contains(ConfigFlags::INVALID_TTL);
                let now = peer.reasons(version, AsyncKind::PacketIn, false);
                let reasons = if wanted { now | TTL } else { now & !TTL };
                let chosen = AsyncConfig::default().with(AsyncKind::PacketIn, false, reasons);
                peer.choose(&chosen);
            }
        }
        set_misses(&self.shared, &all);
        Ok(())
    }

    pub(super) fn set_role(&mut self, role: Role, generation: Option<u64>) -> Result<Role, Fault> {
        let mut all = self.shared.peers.lock();
        let role = all.set_role(self.number, role, generation)?;
        set_misses(&self.shared, &all);
        Ok(role)
    }

    pub(super) fn asynchronous(&self, version: Version) -> AsyncConfig {
        let found = self.shared.peers.with(self.number, |peer| peer.asynchronous(version));
        found.unwrap_or_default()
    }

    pub(super) fn set_asynchronous(&mut self, config: &AsyncConfig) {
        let mut all = self.shared.peers.lock();
        if let Some(peer) = all.peers.iter_mut().find(|peer| peer.number == self.number) {
            peer.choose(config);
        }
        set_misses(&self.shared, &all);
    }
}
