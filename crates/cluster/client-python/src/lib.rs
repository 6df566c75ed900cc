//! Consumers of a cluster in Python: the classes of the module `linerate`. Their behaviour is
//! described in `python/linerate/__init__.pyi`, which is part of the interface; here are its
//! foundations.
//!
//! A [`Batch`](batch::Batch) is a number: its packets are in the
//! [`ConsumerState`](batch_store::ConsumerState) of its consumer, which counts Python's views of
//! them. None is given back or sent while there is one, so that no view ever shows a packet that
//! has another owner by now.
//!
//! Nothing of Python is called while the state is locked: an allocation may collect garbage, and a
//! batch that is collected locks it, too.
//!
//! Unsafe code is the substance of Python's buffers: pointers that their holders vouch for.
#![allow(unsafe_code, reason = "Python's buffer protocol")]

mod batch;
mod batch_store;
mod consumer;
mod view;

use linerate_client::ClientError;
use pyo3::{
    PyErr, create_exception,
    exceptions::{PyBufferError, PyException, PyValueError},
};

create_exception!(linerate, Error, PyException, "Something is wrong with a cluster.");
create_exception!(linerate, Refused, Error, "The server does not do it.");
create_exception!(linerate, Ended, Error, "The server is gone, or has ended this consumer.");

/// The reason why something is not done.
#[derive(Debug)]
enum Failure {
    Client(ClientError),
    /// The consumer was closed.
    Closed,
    /// The batch was given back.
    Released,
    /// So many views are in the way.
    Viewed(usize),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Client(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Client(error) if error.is_end() => Ended::new_err(error.to_string()),
            Failure::Client(error @ ClientError::Refused { .. }) => {
                Refused::new_err(error.to_string())
            }
            Failure::Client(error) => Error::new_err(error.to_string()),
            Failure::Closed => PyValueError::new_err("the consumer is closed"),
            Failure::Released => PyValueError::new_err("the batch has been released or sent"),
            Failure::Viewed(views) => PyBufferError::new_err(format!(
                "{views} views of the batch's packets are in use: delete or release() them first"
            )),
        }
    }
}

/// The compiled part of `linerate`.
#[pyo3::pymodule(name = "_client")]
mod client {
    #[pymodule_export]
    use super::{
        Ended, Error, Refused,
        batch::Batch,
        consumer::{Consumer, Statistics},
    };
}
