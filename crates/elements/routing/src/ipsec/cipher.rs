//! `IPsecAES` and `IPsecDES`: encrypt or decrypt the bytes behind the ESP header.
//!
//! DES is chained as usual (CBC, RFC 2405). AES is chained by 8 bytes, as there
//! are no more in Click's ESP header: they are added to the first half of each
//! block, and come from the first half of the encrypted block before.

use aes::{
    Aes128,
    cipher::{Array, BlockCipherDecrypt as _, BlockCipherEncrypt as _},
};
use des::Des;
use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, NoBuffer, Writes,
};
use linerate_memory::Frame;

use super::{
    DIGEST, ESP, FAMILY,
    association::{Association, AssociationCache},
    esp,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no security association
    NoAssociation,
    /// too short
    Short,
}

pub(super) const AES: Class = Class {
    name: "IPsecAES",
    family: FAMILY,
    summary: "encrypts or decrypts packets of a tunnel with AES-128",
    description: "All behind the ESP header but the last 12 bytes, which are the digest of \
        IPsecAuthHMACSHA1; where that is no multiple of 16 bytes, 8 bytes of the digest as well. \
        Blocks are chained in Click's own way: at the other end of the tunnel must be Click or this.",
    ports: "1/1",
    args: &[Arg::required("ENCRYPT", "1 or 0", "whether to encrypt; 0: to decrypt")],
    annotates: true,
    drops: Reason::REASONS,
    cost: "The packet, with the processor's instructions for AES where it has them.",
    example: esp::EXAMPLE,
    make: |make| Box::new(Blocks { cipher: Cipher::Aes, ..Blocks::new(make) }),
    ..Class::here()
};

pub(super) const DES: Class = Class {
    name: "IPsecDES",
    summary: "encrypts or decrypts packets of a tunnel with DES",
    description: "All behind the ESP header but the last 12 bytes, which are the digest of \
        IPsecAuthHMACSHA1 (RFC 2405). The key is the first half of the tunnel's. DES protects \
        nothing any more: it is here for configurations that have it.",
    cost: "The packet, some 50 cycles per byte.",
    make: |make| Box::new(Blocks { cipher: Cipher::Des, ..Blocks::new(make) }),
    ..AES
};

#[derive(Debug, Clone, Copy)]
enum Cipher {
    Aes,
    Des,
}

/// Bytes that go from block to block.
const LINK: usize = 8;
const AES_BLOCK: usize = 16;

struct Blocks {
    cipher: Cipher,
    encrypts: bool,
    known: AssociationCache,
}

impl Blocks {
    fn new(make: &mut ElementBuilder<'_>) -> Blocks {
        let encrypts = make.need::<i32>("ENCRYPT") != 0;
        Blocks { cipher: Cipher::Aes, encrypts, known: AssociationCache::new(make) }
    }
}

/// Adds the link to the beginning of a block.
fn add(block: &mut [u8], link: [u8; LINK]) {
    block.iter_mut().zip(link).for_each(|(byte, other)| *byte ^= other);
}

/// Its first bytes.
fn link(block: &[u8]) -> [u8; LINK] {
    block.first_chunk().copied().unwrap_or_default()
}

/// Encrypts or decrypts blocks of `N` bytes, in place.
fn chain<const N: usize>(
    bytes: &mut [u8],
    mut last: [u8; LINK],
    encrypts: bool,
    mut block: impl FnMut(&mut [u8; N]),
) {
    for one in bytes.as_chunks_mut::<N>().0 {
        let before = link(one);
        if encrypts {
            add(one, last);
        }
        block(one);
        if encrypts {
            last = link(one);
        } else {
            add(one, last);
            last = before;
        }
    }
}

fn aes(cipher: &Aes128, bytes: &mut [u8], first: [u8; LINK], encrypts: bool) {
    chain::<AES_BLOCK>(bytes, first, encrypts, |block| {
        let mut array = Array::from(*block);
        if encrypts {
            cipher.encrypt_block(&mut array);
        } else {
            cipher.decrypt_block(&mut array);
        }
        *block = array.into();
    });
}

fn des(cipher: &Des, bytes: &mut [u8], first: [u8; LINK], encrypts: bool) {
    chain::<LINK>(bytes, first, encrypts, |block| {
        let mut array = Array::from(*block);
        if encrypts {
            cipher.encrypt_block(&mut array);
        } else {
            cipher.decrypt_block(&mut array);
        }
        *block = array.into();
    });
}

impl Cipher {
    /// Bytes of a packet of that length that are encrypted.
    fn covers(self, length: usize) -> usize {
        let payload = length.saturating_sub(ESP + DIGEST);
        match self {
            Cipher::Aes if !payload.is_multiple_of(AES_BLOCK) => {
                (payload + LINK).next_multiple_of(AES_BLOCK)
            }
            Cipher::Aes => payload,
            Cipher::Des => payload.next_multiple_of(LINK),
        }
    }

    fn apply(self, by: &Association, bytes: &mut [u8], first: [u8; LINK], encrypts: bool) {
        match self {
            Cipher::Aes => aes(&by.aes, bytes, first, encrypts),
            Cipher::Des => des(&by.des, bytes, first, encrypts),
        }
    }
}

impl Element for Blocks {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Blocks { cipher, encrypts, ref mut known } = *self;
        let mut unknown = 0;
        cx.retain::<Writes, Reason>(frame, |packet| {
            let association = known.for_packet(packet.meta()).ok_or_else(|| {
                unknown += 1;
                Exit::Drop(Reason::NoAssociation)
            })?;
            let covered = cipher.covers(packet.len());
            let (header, payload) =
                packet.bytes_mut().split_at_mut_checked(ESP).ok_or(Exit::Drop(Reason::Short))?;
            let payload = payload.get_mut(..covered).ok_or(Exit::Drop(Reason::Short))?;
            cipher.apply(association, payload, link(&header[LINK..]), encrypts);
            Ok(())
        });
        for _ in 0..unknown {
            cx.console().report(match (cipher, encrypts) {
                (Cipher::Des, _) => "DES: No SADataTuple annotation. Check man page\n",
                (Cipher::Aes, false) => {
                    "AES: No SADataTuple reference annotation. check man page\n"
                }
                (Cipher::Aes, true) => {
                    "AES: No SADataTuple annotation. This module is not properly placed \
                     check man page\n"
                }
            });
        }
    }
}
