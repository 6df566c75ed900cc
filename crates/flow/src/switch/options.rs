//! What a switch is made with.

use crate::wire::multipart::Description;

/// What a switch is made with.
#[derive(Debug, Clone)]
pub struct SwitchOptions {
    /// How many tables it has, 1 to 254.
    pub tables: u8,
    /// How many flows each may have.
    pub flows: u32,
    /// How many groups it may have.
    pub groups: u32,
    /// Most buckets of all groups together.
    pub buckets: u32,
    /// How many meters it may have.
    pub meters: u32,
    /// Its number: a MAC address below sixteen bits of its own.
    pub datapath: u64,
    /// What it says of itself.
    pub description: Description,
    /// How many events wait for a subscriber.
    pub events: usize,
    /// How many packets of a port wait for controllers.
    pub punts: u32,
}

impl Default for SwitchOptions {
    fn default() -> SwitchOptions {
        SwitchOptions {
            tables: 254,
            flows: 1_000_000,
            groups: 65_536,
            buckets: 1 << 20,
            meters: 65_536,
            datapath: 0,
            description: Description {
                manufacturer: "Linerate".to_owned(),
                hardware: "flow switch".to_owned(),
                software: env!("CARGO_PKG_VERSION").to_owned(),
                serial: "None".to_owned(),
                datapath: "None".to_owned(),
            },
            events: 16_384,
            punts: 128,
        }
    }
}
