//! Processing of IP options by a router.
//!
//! RFC 791 section 3.1, RFC 1812 section 5.3.13. Source routes are not for it:
//! they change where a packet goes.

use linerate_element_support::ip::{LEAST, fill_checksum, header_length};

const END: u8 = 0;
const NOTHING: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
/// Longest header.
const LONGEST: usize = 60;

/// Records the route and times in the options of the header `ip` begins with. `mine` are the
/// router's addresses, of which the first is recorded; `time` returns milliseconds since midnight.
///
/// # Errors
///
/// The offset of the fault in the header, which is then unchanged.
pub(super) fn process(
    ip: &mut [u8],
    mine: &[[u8; 4]],
    time: impl FnOnce() -> u32,
) -> Result<(), u8> {
    let length = header_length(ip).min(LONGEST);
    if length <= LEAST {
        return Ok(());
    }
    let mut header = [0; LONGEST];
    let header = &mut header[..length];
    header.copy_from_slice(&ip[..length]);
    let mut time = Time { read: Some(time), value: 0 };
    let mut changed = false;
    let mut at = LEAST;
    while at < length {
        match header[at] {
            NOTHING => {
                at += 1;
                continue;
            }
            END => break,
            _ => {}
        }
        let size = header.get(at + 1).map_or(0, |size| usize::from(*size));
        if size < 2 || at + size > length {
            return Err(at as u8 + 1);
        }
        let option = &mut header[at..at + size];
        let wrong = match option[0] {
            RECORD_ROUTE => record_route(option, mine),
            TIMESTAMP => record_time(option, mine, &mut time),
            _ => Ok(false),
        };
        changed |= wrong.map_err(|place| at as u8 + place)?;
        at += size;
    }
    if changed {
        ip[..length].copy_from_slice(header);
        fill_checksum(ip);
    }
    Ok(())
}

/// The time, read at most once.
struct Time<F> {
    read: Option<F>,
    value: u32,
}

impl<F: FnOnce() -> u32> Time<F> {
    fn get(&mut self) -> [u8; 4] {
        if let Some(read) = self.read.take() {
            self.value = read();
        }
        self.value.to_be_bytes()
    }
}

/// Returns the offset that the option's pointer, which counts from one, leads to.
fn pointer(option: &[u8]) -> Option<usize> {
    option.get(2).and_then(|pointer| usize::from(*pointer).checked_sub(1))
}

/// Writes `parts` where the pointer points to and moves it on.
fn write(option: &mut [u8], at: usize, parts: &[[u8; 4]]) {
    for (place, part) in (at..).step_by(4).zip(parts) {
        option[place..place + 4].copy_from_slice(part);
    }
    option[2] += 4 * parts.len() as u8;
}

/// Returns true if the option has changed, or else the offset of its fault.
fn record_route(option: &mut [u8], mine: &[[u8; 4]]) -> Result<bool, u8> {
    match pointer(option) {
        Some(at) if at >= 3 && at + 4 <= option.len() => {
            write(option, at, &mine[..1.min(mine.len())]);
            Ok(true)
        }
        Some(at) if at == option.len() => Ok(false),
        _ => Err(2),
    }
}

/// Likewise for times: alone, with the address, or for addresses named in advance.
fn record_time(
    option: &mut [u8],
    mine: &[[u8; 4]],
    time: &mut Time<impl FnOnce() -> u32>,
) -> Result<bool, u8> {
    let (Some(at @ 4..), Some(&flags)) = (pointer(option), option.get(3)) else { return Err(2) };
    let first = mine.first().copied().unwrap_or_default();
    let room = option.len().saturating_sub(at);
    match flags & 15 {
        0 if room >= 4 => write(option, at, &[time.get()]),
        1 if room >= 8 => write(option, at, &[first, time.get()]),
        0 | 1 => {
            // No room: one more router that could not record anything.
            let overflow = flags >> 4;
            if overflow == 15 {
                return Err(3);
            }
            option[3] = (overflow + 1) << 4 | flags & 15;
        }
        3 if room >= 8 => {
            let named = [option[at], option[at + 1], option[at + 2], option[at + 3]];
            if !mine.contains(&named) {
                return Ok(false);
            }
            write(option, at, &[named, time.get()]);
        }
        _ => return Err(3),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(options: &[u8]) -> Vec<u8> {
        let mut header = etherparse::Ipv4Header { time_to_live: 5, ..Default::default() };
        header.options = options.try_into().unwrap();
        header.set_payload_len(0).unwrap();
        header.header_checksum = header.calc_header_checksum();
        header.to_bytes().to_vec()
    }

    fn processed(options: &[u8]) -> Result<Vec<u8>, u8> {
        let mut bytes = packet(options);
        let before = bytes.clone();
        let result = process(&mut bytes, &[[1, 2, 3, 4], [5, 6, 7, 8]], || 0x0a0b_0c0d);
        let (header, _) = etherparse::Ipv4Header::from_slice(&bytes).unwrap();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        match result {
            Ok(()) => Ok(bytes[20..].to_vec()),
            Err(place) => {
                assert_eq!(bytes, before);
                Err(place)
            }
        }
    }

    #[test]
    fn routes_are_recorded_until_there_is_no_room() {
        let empty = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let first = processed(&empty).unwrap();
        assert_eq!(first, [7, 11, 8, 1, 2, 3, 4, 0, 0, 0, 0, 0]);
        let second = processed(&first).unwrap();
        assert_eq!(second, [7, 11, 12, 1, 2, 3, 4, 1, 2, 3, 4, 0]);
        assert_eq!(processed(&second).unwrap(), second);
    }

    #[test]
    fn times_are_recorded() {
        let time = [0x0a, 0x0b, 0x0c, 0x0d];
        assert_eq!(
            processed(&[68, 8, 5, 0, 0, 0, 0, 0]).unwrap()[2..],
            [&[9, 0][..], &time].concat()
        );
        let full = [68, 8, 9, 0xe0, 1, 1, 1, 1];
        assert_eq!(processed(&full).unwrap()[3], 0xf0);
        assert_eq!(processed(&[68, 8, 9, 0xf0, 1, 1, 1, 1]), Err(23));
        let with_address = [68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let expected = [&[68, 12, 13, 1, 1, 2, 3, 4][..], &time].concat();
        assert_eq!(processed(&with_address).unwrap(), expected);
        let named = [68, 12, 5, 3, 5, 6, 7, 8, 0, 0, 0, 0];
        let expected = [&[68, 12, 13, 3, 5, 6, 7, 8][..], &time].concat();
        assert_eq!(processed(&named).unwrap(), expected);
        let other = [68, 12, 5, 3, 5, 6, 7, 9, 0, 0, 0, 0];
        assert_eq!(processed(&other).unwrap(), other);
    }

    #[test]
    fn a_wrong_option_is_pointed_at() {
        for (options, place) in [
            (&[1, 7, 1, 0][..], 22),
            (&[7, 9, 4, 0], 21),
            (&[7, 4, 3, 0], 22),
            (&[7, 4, 0, 0], 22),
            (&[68, 4, 4, 0], 22),
            (&[68, 8, 5, 2, 0, 0, 0, 0], 23),
            (&[1, 1, 1, 7], 24),
        ] {
            assert_eq!(processed(options), Err(place), "{options:?}");
        }
        assert_eq!(processed(&[0, 7, 0, 0]).unwrap(), [0, 7, 0, 0]);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 20..80)) {
            let _ = process(&mut bytes, &[[1, 2, 3, 4]], || 7);
            let _ = process(&mut bytes, &[], || 7);
        }
    }
}
