//! Ports of kernel interfaces in network namespaces of their own.

mod packet;
mod support;
mod tap;
