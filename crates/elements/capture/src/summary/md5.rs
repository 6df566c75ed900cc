//! MD5 digests of payloads, which compare traces and protect nothing.

use md5::{Digest, Md5};

/// Digits of the short text form, six bits each.
const DIGITS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";

pub(super) fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// The 22 digits of a digest, its lowest bits first.
pub(super) fn text(digest: [u8; 16]) -> impl Iterator<Item = u8> {
    let value = u128::from_le_bytes(digest);
    (0..22).map(move |digit| DIGITS[(value >> (6 * digit)) as usize & 63])
}
