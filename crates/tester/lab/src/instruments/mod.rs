//! Instruments of measurements, each usable by itself.
//!
//! [`Stopwatch`] takes the time of a piece of code; [`Blocks`] that of a loop; [`line()`] fits
//! burnt cycles to those asked for; [`PointerChase`] is a list in memory to walk along;
//! [`PollLimit`] makes a worker look only so often; [`frames`] makes packets whose destinations
//! come in an order; [`Pace`] tells when other load disturbs the core. Cycles are burnt by
//! [`linerate_elements_measuring::Burner`].

mod blocks;
mod destinations;
mod energy;
mod frequency;
mod line;
pub(crate) mod pace;
mod pointer_chase;
mod poll;
mod stopwatch;

pub use blocks::{Blocks, Summary};
pub use destinations::frames;
pub use energy::Energy;
pub use frequency::{Frequency, FrequencyError};
pub use line::{LinearFit, line};
pub use pace::{Pace, waited};
pub use pointer_chase::{PointerChase, PointerChaseError};
pub use poll::PollLimit;
pub use stopwatch::Stopwatch;
