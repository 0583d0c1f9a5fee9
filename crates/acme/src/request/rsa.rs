//! RSA keys of 2,048 bits. ring signs with them and cannot make them.
//!
//! The primes are of crypto-primes, the arithmetic of crypto-bigint, in constant time: two small crates, where the
//! `rsa` crate brings twenty, an open advisory on its timing, and everything else one can do with RSA. ring then
//! checks every relation between the numbers before it takes the key.

use std::convert::Infallible;

use crypto_bigint::rand_core::{TryCryptoRng, TryRng};
use crypto_bigint::{NonZero, U1024, U2048, Uint};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, sieve_and_find};
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::Error;
use crate::certificate::der;

const EXPONENT: u32 = 65_537;
const FAILED: Error = Error::Key("no RSA key could be made");

pub(super) fn generate() -> Result<KeyPair, Error> {
    let key = loop {
        if let Some(key) = attempt()? {
            break der::pkcs8(der::RSA, &key);
        }
    };
    KeyPair::from_pkcs8_der_and_sign_algo(&key.expose().into(), &PKCS_RSA_SHA256)
        .map_err(|_| FAILED)
}

/// One pair of primes, as a PKCS #1 key; none when they do not go with the exponent.
fn attempt() -> Result<Option<Vec<u8>>, Error> {
    let mut random = Random(SystemRandom::new());
    let (a, b) = (prime(&mut random)?, prime(&mut random)?);
    Ok(if a > b { assemble(&a, &b) } else { assemble(&b, &a) })
}

/// A prime of 1,024 bits, the upper two set, so that the product of two has all 2,048.
fn prime(random: &mut Random) -> Result<U1024, Error> {
    let sieve = SmallFactorsSieveFactory::new(Flavor::Any, U1024::BITS, SetBits::TwoMsb)
        .map_err(|_| FAILED)?;
    let found = sieve_and_find(random, sieve, |_, number| is_prime(Flavor::Any, number));
    found.ok().flatten().ok_or(FAILED)
}

/// PKCS #1: modulus, exponents, primes, and what speeds signing up.
fn assemble(p: &U1024, q: &U1024) -> Option<Vec<u8>> {
    let below = |prime: &U1024| prime.wrapping_sub(&U1024::ONE);
    let (p1, q1) = (below(p), below(q));
    let product: U2048 = p1.concatenating_mul(&q1);
    let shared = non_zero(p1.gcd(&q1).resize::<{ U2048::LIMBS }>())?;
    let order = non_zero(product.wrapping_div(&shared))?;
    let d = Option::<U2048>::from(U2048::from_u32(EXPONENT).invert_mod(&order))?;
    let modulus: U2048 = p.concatenating_mul(q);
    let exponent = U1024::from_u32(EXPONENT);
    let d_p = Option::<U1024>::from(exponent.invert_mod(&non_zero(p1)?))?;
    let d_q = Option::<U1024>::from(exponent.invert_mod(&non_zero(q1)?))?;
    let q_inverse = Option::<U1024>::from(q.invert_mod(&non_zero(*p)?))?;
    let half = |number: &U1024| der::integer(number.to_be_bytes().as_ref());
    let whole = |number: &U2048| der::integer(number.to_be_bytes().as_ref());
    Some(der::sequence(&[
        der::integer(&[0]),
        whole(&modulus),
        half(&exponent),
        whole(&d),
        half(p),
        half(q),
        half(&d_p),
        half(&d_q),
        half(&q_inverse),
    ]))
}

fn non_zero<const LIMBS: usize>(number: Uint<LIMBS>) -> Option<NonZero<Uint<LIMBS>>> {
    NonZero::new(number).into()
}

/// The system's randomness, as those crates want it.
struct Random(SystemRandom);

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(bytes).expect("a system without randomness can make no key at all");
        Ok(())
    }
}

impl TryCryptoRng for Random {}
