//! What is to be known of the renewal of a domain that is served.

use super::{Answer, Who};
use crate::{Domain, Note};

/// Served, and perhaps with something to be known of its renewal.
pub(super) fn looked_after(domain: &Domain, mut answer: Answer) -> Answer {
    match &domain.last_error {
        Some(note) if note.code == Note::RENEWAL_PUT_OFF => {
            answer.summary = format!("{} Its renewal waits: {}.", answer.summary, note.detail);
            if matches!(answer.who, Who::Nobody) {
                answer.who = Who::Operator;
                answer.cause = Note::RENEWAL_PUT_OFF.to_owned();
                answer.fix = "Compare the clocks of the CA and of the database with the certificate's dates; \
                              `holdfast domain renew` does not wait."
                    .to_owned();
            }
        }
        Some(note) if note.code == Note::RENEWAL_EXPLAINED => {
            answer.summary = format!("{} {}.", answer.summary, note.detail);
        }
        _ => {}
    }
    answer
}
