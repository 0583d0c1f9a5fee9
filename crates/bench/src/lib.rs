//! Measures Holdfast as its users run it: the release binary and its peers as processes of their own, on one machine, side
//! by side in one run. Nothing of Holdfast is called in process, except where a figure is about one statement of its store.
//!
//! A figure is a median with its spread; the runs that it is made from alternate with those it is compared with,
//! so that whatever else the machine does strikes all of them alike.

pub mod api;
pub mod bare;
pub mod figures;
pub mod machine;
pub mod network;
pub mod peer;
pub mod process;
pub mod progress;
pub mod replica;
pub mod report;
pub mod responder;
pub mod sample;
pub mod seed;
pub mod soak;
pub mod table;
pub mod web;
