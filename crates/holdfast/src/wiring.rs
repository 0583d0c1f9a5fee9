//! Puts the parts together as the configuration says. Every part is made here and nowhere else; what a part
//! does is its own crate's business.

pub(crate) mod admin_token;
pub(crate) mod ca;
pub(crate) mod cluster;
pub(crate) mod instance;
pub(crate) mod marker;
pub(crate) mod master_key;
pub(crate) mod replica;
pub(crate) mod starting;
pub(crate) mod store;
