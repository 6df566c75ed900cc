//! Options of a switch.

use crate::wire::multipart::Description;

/// Options of a switch.
#[derive(Debug, Clone)]
pub struct SwitchOptions {
    /// Number of tables, 1 to 254.
    pub tables: u8,
    /// Flows per table, at most.
    pub flows: u32,
    /// Groups, at most.
    pub groups: u32,
    /// Most buckets of all groups together.
    pub buckets: u32,
    /// Meters, at most.
    pub meters: u32,
    /// Its number: a MAC address below sixteen bits of its own.
    pub datapath: u64,
    /// Its description for controllers.
    pub description: Description,
    /// Events that may wait for a subscriber.
    pub events: usize,
    /// Packets of a port that may wait for controllers.
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
