//! Arbitrary bytes: nothing panics, messages that are read are written so that they are read as the
//! same, and faults have numbers in every version.

use linerate_openflow::wire::{
    ErrorMessage, HEADER, Header, Message, Stream, Unencodable, Version,
};

/// Takes the bytes as one message.
pub(crate) fn message(bytes: &[u8]) {
    match Message::decode(bytes) {
        Ok((version, xid, message)) => {
            if let Message::FlowMod(flow) = &message {
                // Any result will do.
                let _ = flow.check();
            }
            match message.encode(version, xid) {
                Ok(again) => {
                    let read = Message::decode(&again);
                    assert_eq!(
                        read,
                        Ok((version, xid, message.clone())),
                        "{bytes:02x?}, {again:02x?}"
                    );
                    let once_more = message.encode(version, xid);
                    assert_eq!(once_more.as_ref(), Ok(&again));
                }
                // Some have forms that are longer.
                Err(Unencodable::TooLong) => assert!(bytes.len() > 16_000, "{bytes:02x?}"),
                Err(error) => panic!("{error}: {message:?} of {bytes:02x?}"),
            }
            for other in Version::ALL {
                // The version may lack it, or mean less by it; bytes that are written can be read.
                if let Ok(written) = message.encode(other, xid) {
                    let read = Message::decode(&written);
                    assert!(read.is_ok(), "{read:?} in {other}: {message:?}");
                }
            }
        }
        Err(fault) => {
            for version in Version::ALL {
                let error = Message::Error(ErrorMessage::new(fault, version, bytes));
                let written = error.encode(version, 0).expect("errors can be said");
                assert_eq!(Message::decode(&written), Ok((version, 0, error)));
            }
        }
    }
}

/// Takes the bytes as those of a connection, in pieces, and each message in it.
pub(crate) fn stream(bytes: &[u8]) {
    let mut stream = Stream::new();
    let mut taken = 0;
    for piece in bytes.chunks(97) {
        stream.push(piece);
        loop {
            match stream.next_message() {
                Ok(Some(found)) => {
                    assert!(found.len() >= HEADER);
                    taken += found.len();
                    message(found);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    assert_eq!(taken + stream.waiting(), bytes.len());
}

/// Takes the bytes as a message, with a corrected header.
pub(crate) fn framed(bytes: &[u8]) {
    let mut bytes = bytes[..bytes.len().min(u16::MAX.into())].to_vec();
    if Header::read(&bytes).is_none() {
        return;
    }
    if Version::from_number(bytes[0]).is_none() {
        bytes[0] = Version::ALL[usize::from(bytes[0]) % Version::ALL.len()].number();
    }
    let length = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&length);
    message(&bytes);
}
