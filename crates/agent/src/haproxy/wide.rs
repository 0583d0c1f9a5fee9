//! PEM in fewer lines.
//!
//! HAProxy acknowledges a payload line by line, and yields after each: with lines three times as long, `set` and `commit` together took it a tenth
//! to a quarter less.
//! OpenSSL reads lines of up to 254 characters; there are libraries that read none over 64.

use zeroize::Zeroizing;

/// The longest line that is made; three of the usual.
const WIDTH: usize = 192;

/// The same PEM in fewer lines.
pub(super) fn wide(pem: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(pem.len()));
    let mut column = 0;
    for line in pem.lines() {
        let is_mark = line.starts_with('-');
        if column > 0 && (is_mark || column + line.len() > WIDTH) {
            text.push('\n');
            column = 0;
        }
        text.push_str(line);
        column += line.len();
        if is_mark {
            text.push('\n');
            column = 0;
        }
    }
    if column > 0 {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD as STANDARD;
    use proptest::prelude::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn lines_are_joined_and_marks_stand_alone() {
        let line = |of: &str| of.repeat(64);
        let (a, b, c, d) = (line("a"), line("b"), line("c"), line("d"));
        let pem = format!("-----BEGIN X-----\n{a}\n{b}\n{c}\n{d}\ne==\n-----END X-----\n");
        let wanted = format!("-----BEGIN X-----\n{a}{b}{c}\n{d}e==\n-----END X-----\n");
        assert_eq!(*wide(&pem), wanted);
        assert_eq!(*wide(&wanted), wanted);
        // Lines of another length, and text between blocks.
        let (long, text) = ("f".repeat(76), "subject=CN = a.test");
        let pem = format!("{text}\n-----BEGIN X-----\n{long}\n{long}\n{long}\n-----END X-----\n");
        let wanted = format!("{text}\n-----BEGIN X-----\n{long}{long}\n{long}\n-----END X-----\n");
        assert_eq!(*wide(&pem), wanted);
        assert_eq!(*wide(""), "");
        assert_eq!(*wide("a"), "a\n");
    }

    proptest! {
        #[test]
        fn it_means_the_same(ders in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2_000), 1..4)) {
            let blocks = ders.iter().map(|der| {
                let text = STANDARD.encode(der);
                let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
                for line in text.as_bytes().chunks(64) {
                    writeln!(pem, "{}", std::str::from_utf8(line).unwrap()).unwrap();
                }
                pem + "-----END CERTIFICATE-----\n"
            });
            let pem: String = blocks.collect();
            let read: Vec<_> = CertificateDer::pem_slice_iter(wide(&pem).as_bytes())
                .map(|der| der.unwrap().to_vec())
                .collect();
            prop_assert_eq!(read, ders);
            prop_assert!(wide(&pem).lines().all(|line| line.len() <= WIDTH));
        }
    }
}
