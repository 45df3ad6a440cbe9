package v2

// residuals computes the zigzag-coded residuals of a row for each predictor.
func residuals(z0, z1, z2 []byte, n neighbours[uint8]) {
	left, top, topLeft := n.left[:len(n.at)], n.top[:len(n.at)], n.topLeft[:len(n.at)]
	z0, z1, z2 = z0[:len(n.at)], z1[:len(n.at)], z2[:len(n.at)]
	for x, v := range n.at {
		med, avg, mix := predictAll(int(left[x]), int(top[x]), int(topLeft[x]))
		z0[x], z1[x], z2[x] = zigzag(int(v)-med), zigzag(int(v)-avg), zigzag(int(v)-mix)
	}
}

// residualsMED computes them for MED.
func residualsMED(z []byte, n neighbours[uint8]) {
	left, top, topLeft := n.left[:len(n.at)], n.top[:len(n.at)], n.topLeft[:len(n.at)]
	z = z[:len(n.at)]
	for x, v := range n.at {
		z[x] = zigzag(int(v) - median(int(left[x]), int(top[x]), int(topLeft[x])))
	}
}

// wideResiduals is residuals for samples of 16 bits, in two bytes each.
func wideResiduals(low, high *[preds][]byte, n neighbours[uint16]) {
	for x, v := range n.at {
		med, avg, mix := predictAll(int(n.left[x]), int(n.top[x]), int(n.topLeft[x]))
		for i, p := range [preds]int{med, avg, mix} {
			low[i][x], high[i][x] = wideZigzag(int(v) - p)
		}
	}
}

// wideResidualsMED is residualsMED for samples of 16 bits.
func wideResidualsMED(low, high []byte, n neighbours[uint16]) {
	for x, v := range n.at {
		low[x], high[x] = wideZigzag(int(v) - median(int(n.left[x]), int(n.top[x]), int(n.topLeft[x])))
	}
}

// predictAll returns what each predictor makes of a sample's neighbours.
func predictAll(l, t, tl int) (med, avg, mix int) {
	med, avg = median(l, t, tl), (l+t+1)>>1
	return med, avg, (med + avg + 1) >> 1
}

func zigzag(d int) byte { return byte(int8(d)<<1 ^ int8(d)>>7) }

func wideZigzag(d int) (low, high byte) {
	z := uint16(int16(d)<<1 ^ int16(d)>>15)
	return byte(z), byte(z >> 8)
}
