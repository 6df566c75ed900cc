//! Names of ICMP types and codes.

const TYPES: &[(&str, u8)] = &[
    ("echo", 8),
    ("echo-reply", 0),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
    ("parameterproblem", 12),
    ("redirect", 5),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("sourcequench", 4),
    ("timeexceeded", 11),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("unreachable", 3),
];

const UNREACHABLE: &[(&str, u8)] = &[
    ("filterprohibited", 13),
    ("host", 1),
    ("hostprecedence", 14),
    ("hostprohibited", 10),
    ("hostunknown", 7),
    ("isolated", 8),
    ("needfrag", 4),
    ("net", 0),
    ("netprohibited", 9),
    ("netunknown", 6),
    ("port", 3),
    ("precedencecutoff", 15),
    ("protocol", 2),
    ("srcroutefail", 5),
    ("toshost", 12),
    ("tosnet", 11),
];

const REDIRECT: &[(&str, u8)] = &[("host", 1), ("net", 0), ("toshost", 3), ("tosnet", 2)];
const TIME_EXCEEDED: &[(&str, u8)] = &[("reassembly", 1), ("transit", 0)];
const PARAMETER: &[(&str, u8)] = &[("erroratptr", 0), ("length", 2), ("missingopt", 1)];

/// The names of types, or of the codes of a type.
fn names(of: Option<u8>) -> &'static [(&'static str, u8)] {
    match of {
        None => TYPES,
        Some(3) => UNREACHABLE,
        Some(5) => REDIRECT,
        Some(11) => TIME_EXCEEDED,
        Some(12) => PARAMETER,
        Some(_) => &[],
    }
}

/// The name of a type, or of a code `of` a type.
pub fn name(of: Option<u8>, number: u64) -> Option<&'static str> {
    let found = names(of).iter().find(|(_, other)| u64::from(*other) == number);
    found.map(|(name, _)| *name)
}

/// The number of a type, or of a code `of` a type.
pub fn number(of: Option<u8>, name: &str) -> Option<u64> {
    names(of).iter().find(|(other, _)| *other == name).map(|(_, number)| u64::from(*number))
}
