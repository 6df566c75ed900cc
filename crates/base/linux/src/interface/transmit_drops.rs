//! Packets an interface dropped instead of transmitting: of a TAP interface, those
//! that this machine's network stack sent and its reader was too slow to take.

use std::io;

use netlink_packet_core::{Emitable, NlasIterator, ParseableParametrized};
use netlink_packet_route::{
    AddressFamily,
    link::{LinkAttribute, LinkMessage},
};

use super::{link::HEADER, netlink::Netlink};

/// Asks an interface for its count of them, in the network namespace of the
/// thread that made this.
#[derive(Debug)]
pub struct TransmitDrops {
    netlink: Netlink,
    request: Vec<u8>,
    /// The interface's count when last asked.
    before: u64,
}

impl TransmitDrops {
    /// Counts from now on.
    pub fn new(index: u32) -> io::Result<TransmitDrops> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let mut request = vec![0; message.buffer_len()];
        message.emit(&mut request);
        let mut drops = TransmitDrops { netlink: Netlink::route()?, request, before: 0 };
        drops.before = drops.total()?;
        Ok(drops)
    }

    /// Packets dropped since the last time.
    pub fn since(&mut self) -> io::Result<u64> {
        let total = self.total()?;
        let since = total.saturating_sub(self.before);
        self.before = total;
        Ok(since)
    }

    fn total(&mut self) -> io::Result<u64> {
        let reply = self.netlink.request(libc::RTM_GETLINK, &self.request)?;
        let dropped = reply.iter().find_map(|message| {
            NlasIterator::new(message.body.get(HEADER..)?).map_while(Result::ok).find_map(|nla| {
                match LinkAttribute::parse_with_param(&nla, AddressFamily::Unspec) {
                    Ok(LinkAttribute::Stats64(stats)) => Some(stats.tx_dropped),
                    _ => None,
                }
            })
        });
        Ok(dropped.unwrap_or(self.before))
    }
}
