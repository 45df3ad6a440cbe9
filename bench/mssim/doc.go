// Package mssim measures how alike two pictures look: the multi-scale structural
// similarity of Wang, Simoncelli and Bovik ("Multiscale structural similarity
// for image quality assessment", 2003). It is the measure by which the paper on
// progressive compressed records (PCR, VLDB 2021) judges its scans.
//
// # Nouns
//
// A window is the Gaussian of 11 by 11 pixels, σ 1.5, through which means,
// variances and the covariance of two pictures are seen at each place where it
// fits as a whole. From them come the luminance term, how alike the means are,
// and the contrast term, how alike the variances are and how well the deviations
// go together.
//
// A level is the pictures at one size; each of the five is half the one before
// it. The similarity is the product of the contrast terms of the first four and
// of luminance times contrast at the last, each to the power of its weight:
// 1 for equal pictures, less for all others.
//
// # Channels
//
// The three channels of an RGB picture count alike: at each level the mean goes
// over all of them. The PCR paper does not say what it measures on; the
// program that its authors published (mkuchnik/PCR_Release, compat/metric.py)
// does this, after Pillow's convert('RGB'), and 0.95 is a mark on that scale.
// On luma alone the same scan scores higher where its colour comes late.
//
// As that program does, a last row or column that has no partner counts twice
// when a level is halved, and K1 = 0.01, K2 = 0.03, L = 255. It lets the window
// shrink where a picture is smaller than the window at some level; here that is
// [ErrSmall], since the result is another measure.
package mssim
