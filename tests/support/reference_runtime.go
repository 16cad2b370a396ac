// A runtime built on the reference's library, for tests that compare with it. Takes one JSON object
// on stdin that says what to do, and prints the result of ADD.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containernetworking/cni/libcni"
)

type request struct {
	Verb, File, CacheDir string
	Path                 []string
	ContainerID          string
	NetNS                string
	IfName               string
	Args                 [][2]string
	CapabilityArgs       map[string]interface{}
}

func do(r request) error {
	list, err := libcni.ConfListFromFile(r.File)
	if err != nil {
		return err
	}
	runtime := &libcni.RuntimeConf{ContainerID: r.ContainerID, NetNS: r.NetNS, IfName: r.IfName,
		Args: r.Args, CapabilityArgs: r.CapabilityArgs}
	cni := libcni.NewCNIConfigWithCacheDir(r.Path, r.CacheDir, nil)
	ctx := context.Background()
	switch r.Verb {
	case "add":
		result, err := cni.AddNetworkList(ctx, list, runtime)
		if err != nil {
			return err
		}
		return result.Print()
	case "check":
		return cni.CheckNetworkList(ctx, list, runtime)
	case "del":
		return cni.DelNetworkList(ctx, list, runtime)
	}
	return fmt.Errorf("no verb: %q", r.Verb)
}

func main() {
	var r request
	err := json.NewDecoder(os.Stdin).Decode(&r)
	if err == nil {
		err = do(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
