//! Packing of a multipart answer, made piece by piece, into messages.

use super::kind::{MORE, encode_head};
use super::reply::Reply;
use crate::wire::bytes::Writer;
use crate::wire::message::{HEADER, reply_kind};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Packs the entries of an answer into as few messages as possible, for any number of pieces.
///
/// No more than one message is held, so an answer of any length can be sent in bounded memory.
#[derive(Debug)]
pub struct Parts {
    version: Version,
    /// A message without entries.
    empty: Vec<u8>,
    /// The message that is being filled.
    part: Vec<u8>,
}

impl Parts {
    /// Begins an answer of the kind of `reply`, without its entries.
    pub fn new(reply: &Reply, version: Version, xid: u32) -> Result<Parts, Unencodable> {
        let mut out = Writer::new();
        out.u8(version.number());
        out.u8(reply_kind(version)?);
        out.u16(0);
        out.u32(xid);
        encode_head(reply.kind(), false, version, &mut out)?;
        let empty = out.into_bytes();
        Ok(Parts { version, part: empty.clone(), empty })
    }

    /// Adds entries, and returns the messages that they fill.
    ///
    /// An entry of a list that the version cannot encode is left out: a flow that one controller
    /// wrote in 1.3 may have no form in 1.0, but the other flows have. Anything else that cannot be
    /// encoded is an error.
    pub fn add(&mut self, reply: &Reply) -> Result<Vec<Vec<u8>>, Unencodable> {
        let room = usize::from(u16::MAX);
        let mut full = Vec::new();
        for nth in 0..reply.len() {
            let mut out = Writer::new();
            let encoded = reply.encode_entry(nth, self.version, &mut out);
            let entry = out.into_bytes();
            let fits = self.empty.len() + entry.len() <= room;
            match encoded.and(if fits { Ok(()) } else { Err(Unencodable::TooLong) }) {
                Err(_) if reply.is_list() => continue,
                other => other?,
            }
            if self.part.len() + entry.len() > room {
                let mut part = std::mem::replace(&mut self.part, self.empty.clone());
                part[HEADER + 3] |= MORE as u8;
                full.push(with_length(part));
            }
            self.part.extend_from_slice(&entry);
        }
        Ok(full)
    }

    /// The last message, which may be one without entries.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        with_length(self.part)
    }
}

fn with_length(mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
    message
}
