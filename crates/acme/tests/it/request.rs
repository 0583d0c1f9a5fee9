//! Keys and certificate requests.

use holdfast_acme::{KeyType, key_and_csr};
use holdfast_model::Hostname;
use rcgen::{CertificateSigningRequestParams, KeyPair, PublicKeyData as _};
use x509_parser::prelude::FromDer as _;

fn made(name: &str, key_type: KeyType) -> (KeyPair, Vec<u8>) {
    let (key, csr) = key_and_csr(&Hostname::parse(name).unwrap(), key_type).unwrap();
    let pem = String::from_utf8(key.expose().to_vec()).unwrap();
    (KeyPair::from_pem(&pem).unwrap(), csr)
}

#[test]
fn a_request_is_signed_by_its_key_for_its_name() {
    for key_type in [KeyType::EcdsaP256, KeyType::Rsa2048] {
        let (key, der) = made("shop.example.com", key_type);
        let (rest, csr) =
            x509_parser::certification_request::X509CertificationRequest::from_der(&der).unwrap();
        assert!(rest.is_empty());
        csr.verify_signature().unwrap();
        assert_eq!(csr.certification_request_info.subject.iter().count(), 0);
        let read = CertificateSigningRequestParams::from_der(&der.as_slice().into()).unwrap();
        assert_eq!(read.public_key.der_bytes(), key.der_bytes());
        let names: Vec<_> = read.params.subject_alt_names;
        assert_eq!(names, [rcgen::SanType::DnsName("shop.example.com".try_into().unwrap())]);
    }
}

#[test]
fn the_longest_name_fits() {
    let label = "a".repeat(63);
    let name = format!("{label}.{label}.{label}.{}.example", "b".repeat(53));
    assert_eq!(name.len(), 253);
    made(&name, KeyType::EcdsaP256);
}

#[test]
fn rsa_keys_have_2048_bits_and_differ() {
    let moduli: Vec<Vec<u8>> =
        (0..3).map(|_| made("shop.example.com", KeyType::Rsa2048).0.der_bytes().to_vec()).collect();
    assert!(moduli[0] != moduli[1] && moduli[1] != moduli[2] && moduli[0] != moduli[2]);
    // SEQUENCE, INTEGER of 257 bytes: a leading zero before a modulus whose first bit is set.
    for modulus in moduli {
        assert_eq!(modulus[4..9], [0x02, 0x82, 0x01, 0x01, 0x00]);
        assert!(modulus[9] >= 0x80);
    }
}
