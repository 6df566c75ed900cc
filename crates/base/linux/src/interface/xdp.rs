//! XDP support of an interface's driver, asked of the kernel's `netdev` generic netlink family.
//!
//! The family exists since kernel 6.3; before that it can be found out only by trying. Source:
//! `linux/netdev.h`.

use std::io;

use serde::Serialize;

use super::netlink::{Netlink, attributes, generic, generic_parts, number};

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;

/// Bits of `xdp-features`.
const BASIC: u64 = 1;
const REDIRECT: u64 = 1 << 1;
const TRANSMIT: u64 = 1 << 2;
const ZERO_COPY: u64 = 1 << 3;
const HARDWARE: u64 = 1 << 4;
const RECEIVE_PIECES: u64 = 1 << 5;
const TRANSMIT_PIECES: u64 = 1 << 6;

/// Bits of `xsk-features`.
const TRANSMIT_TIMESTAMP: u64 = 1;
const TRANSMIT_CHECKSUM: u64 = 1 << 1;

/// XDP support of a driver. All false: only generic XDP, which every interface has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct XdpSupport {
    /// Programs run in the driver; abort, drop, pass and send back.
    pub native: bool,
    /// Such programs can redirect to another interface or a socket.
    pub redirect: bool,
    /// Others can redirect to this interface.
    pub redirect_target: bool,
    /// `AF_XDP` sockets without a copy.
    pub zero_copy: bool,
    /// Programs run on the card.
    pub hardware: bool,
    /// Frames longer than a buffer are received, in several pieces.
    pub receive_pieces: bool,
    /// Frames in several pieces can be redirected to this interface.
    pub transmit_pieces: bool,
    /// Pieces of a frame in zero-copy mode at most; 1 means one buffer per
    /// frame, `None` that there is no zero-copy mode.
    pub zero_copy_pieces: Option<u32>,
    /// `AF_XDP` sockets can ask when a frame was sent.
    pub transmit_timestamp: bool,
    /// `AF_XDP` sockets can leave the checksum to the card.
    pub transmit_checksum: bool,
}

/// A connection to the `netdev` family.
#[derive(Debug)]
pub(super) struct Netdev {
    netlink: Netlink,
    family: u16,
}

impl Netdev {
    /// # Errors
    ///
    /// `ENOENT` where the kernel does not have the family.
    pub(super) fn open() -> io::Result<Netdev> {
        let mut netlink = Netlink::generic()?;
        let family = netlink.family("netdev")?.id;
        Ok(Netdev { netlink, family })
    }

    /// XDP support of the driver of interface `index`.
    pub(super) fn support(&mut self, index: u32) -> io::Result<Option<XdpSupport>> {
        let request =
            generic(NETDEV_CMD_DEV_GET, &[(NETDEV_A_DEV_IFINDEX, index.to_ne_bytes().to_vec())]);
        let reply = self.netlink.request(self.family, &request)?;
        Ok(reply.iter().find_map(|message| parse(&message.body)))
    }
}

fn parse(body: &[u8]) -> Option<XdpSupport> {
    let (_, rest) = generic_parts(body)?;
    let (mut features, mut socket_features, mut pieces) = (None, 0, None);
    for (kind, value) in attributes(rest) {
        match kind {
            NETDEV_A_DEV_XDP_FEATURES => features = number(value),
            NETDEV_A_DEV_XDP_ZC_MAX_SEGS => {
                pieces = number(value).and_then(|pieces| u32::try_from(pieces).ok());
            }
            NETDEV_A_DEV_XSK_FEATURES => socket_features = number(value).unwrap_or(0),
            _ => {}
        }
    }
    let features = features?;
    Some(XdpSupport {
        native: features & BASIC != 0,
        redirect: features & REDIRECT != 0,
        redirect_target: features & TRANSMIT != 0,
        zero_copy: features & ZERO_COPY != 0,
        hardware: features & HARDWARE != 0,
        receive_pieces: features & RECEIVE_PIECES != 0,
        transmit_pieces: features & TRANSMIT_PIECES != 0,
        zero_copy_pieces: pieces.filter(|_| features & ZERO_COPY != 0),
        transmit_timestamp: socket_features & TRANSMIT_TIMESTAMP != 0,
        transmit_checksum: socket_features & TRANSMIT_CHECKSUM != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(features: u64, pieces: Option<u32>) -> Vec<u8> {
        let mut attributes = vec![
            (NETDEV_A_DEV_IFINDEX, 7u32.to_ne_bytes().to_vec()),
            (NETDEV_A_DEV_XDP_FEATURES, features.to_ne_bytes().to_vec()),
            (NETDEV_A_DEV_XSK_FEATURES, 2u64.to_ne_bytes().to_vec()),
        ];
        if let Some(pieces) = pieces {
            attributes.push((NETDEV_A_DEV_XDP_ZC_MAX_SEGS, pieces.to_ne_bytes().to_vec()));
        }
        generic(NETDEV_CMD_DEV_GET, &attributes)
    }

    #[test]
    fn feature_bits_have_their_names() {
        let veth = parse(&reply(0b110_0111, None)).unwrap();
        assert_eq!(
            veth,
            XdpSupport {
                native: true,
                redirect: true,
                redirect_target: true,
                receive_pieces: true,
                transmit_pieces: true,
                transmit_checksum: true,
                ..XdpSupport::default()
            }
        );
        let card = parse(&reply(0b000_1011, Some(8))).unwrap();
        assert!(card.zero_copy && !card.redirect_target);
        assert_eq!(card.zero_copy_pieces, Some(8));
    }

    #[test]
    fn a_cut_reply_is_no_answer() {
        let whole = reply(1, None);
        for length in 0..24 {
            assert_eq!(parse(&whole[..length.min(whole.len())]), None, "{length}");
        }
    }
}
