//! The little DER that has to be written: integers, sequences, and older forms of keys inside PKCS #8.

use holdfast_store::Secret;

/// What can stand in a PKCS #8 `privateKeyAlgorithm`, encoded.
pub(crate) const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
pub(crate) const P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];
pub(crate) const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// A key of an older form, inside PKCS #8.
pub(crate) fn pkcs8(algorithm: &[u8], key: &[u8]) -> Secret {
    let version = integer(&[0]);
    let body = Secret::new([version.as_slice(), algorithm, &element(OCTET_STRING, key)].concat());
    Secret::new(element(SEQUENCE, body.expose()))
}

/// A private key on a curve (RFC 5915), from its number and its public point.
pub(crate) fn sec1(number: &[u8], point: &[u8]) -> Secret {
    const PUBLIC_KEY: u8 = 0xa1;
    // No unused bits at the end.
    let point = element(BIT_STRING, &[&[0], point].concat());
    let parts = [integer(&[1]), element(OCTET_STRING, number), element(PUBLIC_KEY, &point)];
    Secret::new(sequence(&parts))
}

/// A sequence of what is encoded already.
pub(crate) fn sequence(elements: &[Vec<u8>]) -> Vec<u8> {
    element(SEQUENCE, &elements.concat())
}

/// A number that is not negative, from its bytes, the highest first.
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let significant = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let significant = bytes.get(significant..).unwrap_or_default();
    // A high first bit would mean a negative number; and zero has a byte too.
    let padding: &[u8] =
        if significant.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    element(INTEGER, &[padding, significant].concat())
}

fn element(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = value.len().to_be_bytes();
    let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut element = vec![tag];
    match significant.as_slice() {
        [] => element.push(0),
        [short] if *short < 0x80 => element.push(*short),
        long => {
            element.push(0x80 | u8::try_from(long.len()).unwrap_or(u8::MAX));
            element.extend_from_slice(long);
        }
    }
    element.extend_from_slice(value);
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_negative_and_never_padded_twice() {
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0x7f]), [2, 1, 0x7f]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
    }

    #[test]
    fn long_lengths_say_how_long_they_are() {
        assert_eq!(element(4, &[0; 127])[..2], [4, 127]);
        assert_eq!(element(4, &[0; 128])[..3], [4, 0x81, 128]);
        assert_eq!(element(4, &[0; 300])[..4], [4, 0x82, 1, 44]);
    }
}
