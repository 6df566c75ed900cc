//! The time of day where this machine is.

use std::{ffi::CString, mem};

/// Longest text with the time in it, in bytes: the limit of a file's name.
const LONGEST: usize = 4096;

/// A time, in seconds since 1970, by a format of strftime(3) in the time zone of this process.
/// `None` when the text would be empty or longer than the name of a file may be.
pub fn strftime(format: &str, seconds: u64) -> Option<String> {
    let format = CString::new(format).ok()?;
    let seconds = i64::try_from(seconds).ok()?;
    // SAFETY: its fields are numbers and a pointer, which may all be zero.
    let mut local: libc::tm = unsafe { mem::zeroed() };
    // SAFETY: both point to variables of this function, and are not kept.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut local) }.is_null() {
        return None;
    }
    let mut text = vec![0_u8; LONGEST];
    // SAFETY: the text has as many bytes as is said, the format ends with a zero byte, and the time
    // was filled in; none of them is kept.
    let length = unsafe {
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const local)
    };
    text.truncate(length);
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_filled_in() {
        // In the middle of a year, everywhere.
        let text = |format: &str| strftime(format, 1_689_422_400);
        assert_eq!(text("a-%Y.b%%"), Some("a-2023.b%".into()));
        assert_eq!(text("none"), Some("none".into()));
        assert_eq!((text(""), text("a\0b"), text(&"%Y".repeat(2000))), (None, None, None));
        let of_zone = text("%Y%m%d%H%M%S").expect("a text");
        assert!(of_zone.len() == 14 && of_zone.starts_with("202307"), "{of_zone}");
    }
}
