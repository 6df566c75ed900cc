//! Common code of the fuzz targets.

mod bounded;
mod bytes;
pub mod generate;
mod isolation;
mod packets;
pub mod peers;
mod shown;

pub use bounded::{BOUNDED, bounded_library, inside};
pub use bytes::Bytes;
pub use isolation::{directory, isolate};
pub use packets::make_packets;
pub use shown::{note, show};
