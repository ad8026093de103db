package faults

import (
	"context"
	"net/http"
	"time"
)

// Wait waits badly.
func Wait() int {
	time.Sleep(time.Second)                                                    // want `time.Sleep is forbidden: inject a clock.*\(forbidigo\)`
	time.Sleep(time.Second)                                                    //nolint:forbidigo // The comment allows it.
	ctx, _ := context.WithTimeout(context.TODO(), time.Now().Sub(time.Time{})) // want `cancel function .* should be called.*\(govet\)` `context.TODO is forbidden` `time.Since`
	<-ctx.Done()
	response, _ := http.Get("http://localhost") // want `\(noctx\)` `response body must be closed \(bodyclose\)`
	return response.StatusCode
}
