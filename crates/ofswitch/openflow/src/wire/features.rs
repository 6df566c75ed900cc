//! Features of a switch, and its configuration.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::numbered::flags;
use super::port::{self, Port};
use super::unencodable::Unencodable;
use super::version::Version;

flags! {
    /// Capabilities of a switch.
    pub struct Capabilities: u32 {
        /// Statistics of flows.
        const FLOW_STATS = 1;
        /// Statistics of tables.
        const TABLE_STATS = 1 << 1;
        /// Statistics of ports.
        const PORT_STATS = 1 << 2;
        /// Statistics of groups; the spanning tree protocol in OpenFlow 1.0.
        const GROUP_STATS = 1 << 3;
        /// Reassembly of fragments.
        const IP_REASSEMBLY = 1 << 5;
        /// Statistics of queues.
        const QUEUE_STATS = 1 << 6;
        /// Addresses in ARP can be matched (OpenFlow 1.0).
        const ARP_MATCH_IP = 1 << 7;
        /// Ports that would loop are blocked (OpenFlow 1.2 and later).
        const PORT_BLOCKED = 1 << 8;
        /// Bundles (OpenFlow 1.4 and later).
        const BUNDLES = 1 << 9;
        /// Monitoring of flows (OpenFlow 1.4 and later).
        const FLOW_MONITORING = 1 << 10;
    }
}

/// Features of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Its number: a MAC address below sixteen bits of its own.
    pub datapath: u64,
    /// Packets that can wait.
    pub buffers: u32,
    /// Number of its tables.
    pub tables: u8,
    /// Number of this connection, 0 for the main one; OpenFlow 1.0 has one.
    pub auxiliary: u8,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// A bit for each type of action it has (OpenFlow 1.0).
    pub actions: u32,
    /// Its ports (OpenFlow 1.0).
    pub ports: Vec<Port>,
}

impl Features {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<Features, Fault> {
        let (datapath, buffers) = (reader.u64()?, reader.u32()?);
        let (tables, auxiliary) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let capabilities = Capabilities(reader.u32()?);
        let (actions, ports) = match version {
            Version::V10 => (reader.u32()?, port::decode_list(reader, version)?),
            _ => {
                reader.skip(4)?;
                reader.finish()?;
                (0, Vec::new())
            }
        };
        Ok(Features { datapath, buffers, tables, auxiliary, capabilities, actions, ports })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        out.u64(self.datapath);
        out.u32(self.buffers);
        out.u8(self.tables);
        out.u8(self.auxiliary);
        out.zeros(2);
        out.u32(self.capabilities.0);
        if version != Version::V10 {
            out.zeros(4);
            return Ok(());
        }
        out.u32(self.actions);
        self.ports.iter().try_for_each(|port| port.encode(version, out))
    }
}

flags! {
    /// Treatment of fragments, and of packets whose time to live has ended.
    pub struct ConfigFlags: u16 {
        /// Fragments are dropped.
        const DROP_FRAGMENTS = 1;
        /// Fragments are put together.
        const REASSEMBLE = 1 << 1;
        /// Packets whose time to live ends are sent to controllers (OpenFlow 1.0 to 1.2).
        const INVALID_TTL = 1 << 2;
    }
}

/// Configuration of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Fragments: 0 like others, 1 dropped, 2 put together, 3 matched by Nicira's field.
    pub flags: ConfigFlags,
    /// Bytes of a packet without a match that go to controllers.
    pub miss_send_len: u16,
}

impl Config {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<Config, Fault> {
        let config = Config { flags: ConfigFlags(reader.u16()?), miss_send_len: reader.u16()? };
        reader.finish()?;
        let old = version == Version::V10 || !config.flags.contains(ConfigFlags::INVALID_TTL);
        if !config.flags.is_known() || !old {
            return Err(Fault::ConfigBadFlags);
        }
        Ok(config)
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if version != Version::V10 && self.flags.contains(ConfigFlags::INVALID_TTL) {
            return Err(Unencodable::Absent("packets whose time has ended, as a flag"));
        }
        out.u16(self.flags.0);
        out.u16(self.miss_send_len);
        Ok(())
    }
}
